"""SEA-SQL's whole path, once for every switch, and retrieved values in the other pipelines."""

from collections.abc import Callable
from pathlib import Path as File
from typing import Any

import pytest

from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.metered import MeteredBackbone
from tasks.core.errors import BackboneError
from tasks.retrieval.value_index import DatabaseValues
from tests.support.fake_openai import FakeOpenAI, quota_exhausted, server_error
from tests.support.guide import GOOD, OTHER, Guide, Walk

WRONG = "SELECT nam FROM museum"
REPLIES: dict[str, Any] = {
    "zero_shot_sql": GOOD.removeprefix("SELECT "),
    "bias_elimination": OTHER,
    "execution_reflection": "There is no such column.",
    "execution_correction": {"sql": GOOD},
}
Sea = Callable[..., Any]
Other = Callable[..., EndpointBackbone]


@pytest.fixture
def sea(walk: Guide, tmp_path: File) -> Sea:
    """Take a question through SEA-SQL: `await sea("rewrite_concat=true", bias_elimination=...)`."""

    async def run(*overrides: str, eliminator: MeteredBackbone | None = None, **replies: Any) -> Walk:
        walk.replies = REPLIES | replies
        values = DatabaseValues(walk.bench.runner.database, tmp_path)
        return await walk("sea-sql", *overrides, values=values, eliminator=eliminator)

    return run


@pytest.fixture
def other(open_fake: Callable[..., EndpointBackbone]) -> Other:
    """Make a second backbone, at the same server."""
    return lambda **changes: open_fake(name="small", model="small-1", **changes)


async def test_without_an_eliminator_the_stage_is_skipped_and_says_so(sea: Sea) -> None:
    walked = await sea()
    assert walked.sql == GOOD
    assert walked.stages == ["value_retrieval", "zero_shot_sql", "bias_elimination", "execution_adjustment"]
    assert walked.question_run.in_order[2].skipped == "no eliminator is configured"
    assert walked.candidates == {"1_preliminary_sql": GOOD, "2_execution_adjustment": GOOD}


async def test_the_eliminator_is_another_backbone_and_may_come_after_the_adjustment(
    sea: Sea, other: Other
) -> None:
    async with other() as client:
        walked = await sea(eliminator=MeteredBackbone(client))
    assert walked.stages == ["value_retrieval", "zero_shot_sql", "bias_elimination", "execution_adjustment"]
    assert walked.candidates["2_bias_elimination"] == walked.sql == OTHER
    by_stage = {record.stage: [call.model for call in record.calls] for record in walked.question_run.records}
    assert by_stage["zero_shot_sql"] == ["fake-1"] and by_stage["bias_elimination"] == ["small-1"]
    assert walked.record.notes == []
    async with other() as client:
        walked = await sea("bias_elimination.after_adjustment=true", eliminator=MeteredBackbone(client))
    assert walked.stages == ["value_retrieval", "zero_shot_sql", "execution_adjustment", "bias_elimination"]
    assert walked.candidates["3_bias_elimination"] == walked.sql == OTHER


async def test_what_fails_is_adjusted_and_what_still_fails_stays_and_is_marked(sea: Sea) -> None:
    walked = await sea(zero_shot_sql=WRONG)
    assert walked.candidates == {"1_preliminary_sql": WRONG, "2_execution_adjustment": GOOD}
    assert walked.sql == GOOD
    walked = await sea(
        "execution_adjustment.rounds=2", zero_shot_sql=WRONG, execution_correction={"sql": "SELECT x"}
    )
    assert walked.sql == "SELECT x"
    assert "the final SQL still fails: error" in walked.record.notes


async def test_each_step_can_be_switched_off(sea: Sea, other: Other) -> None:
    async with other() as client:
        small = MeteredBackbone(client)
        walked = await sea(
            "bias_elimination.enabled=false", "execution_adjustment.rounds=0", eliminator=small
        )
    assert walked.stages == ["value_retrieval", "zero_shot_sql"]
    assert walked.candidates == {"1_preliminary_sql": GOOD} and walked.record.notes == []


@pytest.mark.parametrize(("number", "shown"), [
    (0, "`city`)"),
    (1, "`city`: 'Lyon')"),
    (2, "`city`: 'Lyon' | 'Ghent')"),
    (3, "`city`: 'Lyon' | 'Ghent')"),
])  # fmt: skip
async def test_as_many_values_are_shown_as_the_settings_say(sea: Sea, number: int, shown: str) -> None:
    walked = await sea(f"prompt.values_per_column={number}")
    (prompt,) = walked.asked["zero_shot_sql"]
    assert shown in prompt and "`order`.`museum_id` = `museum`.`id`" in prompt
    assert ("value_retrieval" in walked.stages) == bool(number)


async def test_sample_rows_can_be_shown_instead(sea: Sea) -> None:
    walked = await sea("prompt.values=rows", "prompt.schema_format=comment")
    assert "value_retrieval" not in walked.stages
    assert "### Sample values" in walked.asked["zero_shot_sql"][0]


async def test_concatenations_are_taken_apart_only_if_asked_for(sea: Sea) -> None:
    sql = "SELECT name || ' ' || city FROM museum"
    assert (await sea(zero_shot_sql=sql)).sql == sql
    walked = await sea("rewrite_concat=true", zero_shot_sql=sql)
    assert walked.sql == walked.candidates["3_rewrite_concat"] == "SELECT name, city FROM museum"


async def test_no_readable_reply_goes_on_to_the_adjustment(sea: Sea, other: Other) -> None:
    async with other() as client:
        walked = await sea(eliminator=MeteredBackbone(client), zero_shot_sql="I cannot.")
    assert "bias_elimination" not in walked.stages
    assert walked.candidates == {
        "1_preliminary_sql": None,
        "2_bias_elimination": None,
        "3_execution_adjustment": GOOD,
    }


async def test_an_eliminator_that_is_down_costs_no_question(sea: Sea, other: Other) -> None:
    with FakeOpenAI() as down:
        down.always(server_error())
        async with other(base_url=down.base_url) as client:
            walked = await sea(eliminator=MeteredBackbone(client))
    assert walked.sql == GOOD
    (note,) = walked.record.notes
    assert note.startswith("bias elimination was left out, the preliminary SQL was kept: ")
    failed = [record for record in walked.question_run.records if record.error]
    assert [record.stage for record in failed] == ["bias_elimination"]


async def test_an_eliminator_that_never_will_answer_ends_the_run(sea: Sea, other: Other) -> None:
    with FakeOpenAI() as broke:
        broke.always(quota_exhausted())
        async with other(base_url=broke.base_url) as client:
            with pytest.raises(BackboneError) as caught:
                await sea(eliminator=MeteredBackbone(client))
    assert caught.value.fatal


BINDING = "is binding: take over"
COLUMNS_ASKED_FOR = "Select exactly the columns asked for"


@pytest.mark.parametrize(("pipeline", "first", "rules"), [
    ("sea-sql", "zero_shot_sql", "none"),
    ("dac", "initial_sql", "none"),
    ("rsl-sql", "preliminary_sql", "rsl_sql"),
    ("few-shot", "preliminary_sql", "all"),
])  # fmt: skip
@pytest.mark.parametrize("own", [True, False])
async def test_prompts_have_the_rules_of_their_paper_unless_told_otherwise(
    walk: Guide, tmp_path: File, pipeline: str, first: str, rules: str, own: bool
) -> None:
    walk.replies |= REPLIES | {
        "initial_sql": {"sql": WRONG},
        "entity_linking": {"alignment": []},
        "skeleton_parsing": {"sql": WRONG},
        "dac_correction": {"sql": GOOD},
        "zero_shot_sql": WRONG.removeprefix("SELECT "),
        "binary_selection": {"sql": WRONG},
    }
    values = DatabaseValues(walk.bench.runner.database, tmp_path)
    walked = await walk(pipeline, *(() if own else ("prompt.rules=all",)), values=values)
    shown = rules if own else "all"
    asking = {first, "augmented_sql", "self_correction", "dac_correction", "execution_correction"}
    prompts = [prompt for template in asking for prompt in walked.asked[template]]
    assert len(prompts) > 1 or pipeline == "few-shot"
    for prompt in prompts:
        assert (BINDING in prompt) is (shown != "none")
        assert (COLUMNS_ASKED_FOR in prompt) is (shown == "all")
        assert "their spelling comes before the evidence's" in prompt


@pytest.mark.parametrize("pipeline", ["rsl-sql", "few-shot", "zero-shot"])
async def test_other_pipelines_show_retrieved_values_when_told(
    walk: Guide, tmp_path: File, pipeline: str
) -> None:
    values = DatabaseValues(walk.bench.runner.database, tmp_path)
    plain = await walk(pipeline)
    walked = await walk(pipeline, "prompt.values=retrieved", "prompt.values_per_column=1", values=values)
    assert "value_retrieval" in walked.stages and "value_retrieval" not in plain.stages
    assert "city: 'Lyon' | NULL | 'Ghent')\n" in plain.asked["preliminary_sql"][0]
    assert "city: 'Lyon')\n" in walked.asked["preliminary_sql"][0]
    assert walked.sql == plain.sql
    with pytest.raises(RuntimeError, match="has to give a context `values`"):
        await walk(pipeline, "prompt.values=retrieved")


async def test_sea_sql_is_zero_shot_unless_demonstrations_are_asked_for(sea: Sea) -> None:
    assert "### Examples" not in (await sea()).asked["zero_shot_sql"][0]
    for k in (1, 2):
        shown = (await sea(f"demonstrations.k={k}")).asked["zero_shot_sql"][0]
        assert shown.partition("### Examples")[2].count("\nSQL: ") == k
        assert shown.endswith("### Query\nSELECT")
