"""The agent's whole path: where it starts, how it ends, and what it can never see."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.evaluate.runner import with_tool_mode
from tasks.core.errors import BackboneError
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.home import Home
from tasks.settings.pipeline import AgentSettings
from tasks.stages.agent_tools import TOOLS, AgentTool, SqlArguments, Toolbox, ToolResult
from tests.flows.pipelines.test_pipelines_gold import MARKER, Files, evaluated, files_in, with_the_marker
from tests.support.fake_openai import Behaviour, FakeOpenAI, error, reply, server_error, tool_calls
from tests.support.guide import GOOD, OTHER, Guide, Walk
from tests.support.kept_results import kept_results
from tests.support.offline_run import offline_run
from tests.support.prefect_home import Served


def call(name: str, **arguments: Any) -> tuple[str, str]:
    return name, json.dumps(arguments)


LOOK = tool_calls(call("tables"), call("columns", tables=["museum"]))
RUN = tool_calls(call("run_sql", sql=OTHER))
SUBMIT = tool_calls(call("submit", sql=GOOD))


async def walked(walk: Guide, *said: Behaviour, overrides: tuple[str, ...] = ()) -> Walk:
    walk.bench.server.script(*said)
    return await walk("agent", *overrides)


async def test_turns_are_stages_and_candidates_until_a_query_is_submitted(walk: Guide) -> None:
    found = await walked(walk, LOOK, RUN, SUBMIT)
    assert found.sql == GOOD
    assert found.stages == ["turn", "turn 2", "turn 3"]
    assert found.candidates == {"turn_1": None, "turn_2": OTHER, "turn_3": GOOD}
    assert found.record.notes == []
    values = [record.value for record in found.question_run.records]
    assert [len(value["calls"]) for value in values] == [2, 1, 1]
    assert [value["submitted"] for value in values] == [False, False, True]
    assert set(values[0]) == {"text", "calls", "sql", "submitted"}, "a turn holds nothing of the turns before"


async def test_an_endless_loop_ends_at_the_limit_with_the_best_query_or_none(walk: Guide) -> None:
    walk.bench.server.always(RUN)
    found = await walked(walk, overrides=("limits.turns=5",))
    assert (found.sql, len(found.stages)) == (OTHER, 5)
    assert found.record.notes == ["nothing was submitted: the limit of 5 turns was reached"]
    told = [str(received.body["messages"][-1]["content"]) for received in walk.bench.server.requests]
    assert ["You have 2 turns left" in each for each in told] == [False, False, False, True, False]
    assert told[-1].endswith("This is your last turn: call submit now.")
    walk.bench.server.always(reply("I cannot."))
    found = await walked(walk, overrides=("limits.turns=3",))
    assert (found.sql, found.candidates) == (None, {"turn_1": None, "turn_2": None, "turn_3": None})


@pytest.mark.parametrize(("limit", "turns", "note"), [
    ("limits.tokens=1200", 2, "the limit of 1,200 tokens was reached"),
    ("limits.usd=0.000001", 15, "the limit of 15 turns was reached"),
    ("limits.calls=2", 15, "the limit of 15 turns was reached"),
])  # fmt: skip
async def test_tokens_and_calls_are_limited_and_an_unknown_cost_limits_nothing(
    walk: Guide, limit: str, turns: int, note: str
) -> None:
    walk.bench.server.always(replace(RUN, usage={"prompt_tokens": 600, "completion_tokens": 9}))
    found = await walked(walk, overrides=(limit,))
    assert len(found.stages) == turns
    assert found.record.notes == [f"nothing was submitted: {note}"]
    executed = [
        call for record in found.question_run.records for call in record.value["calls"] if not call["error"]
    ]
    assert len(executed) == (2 if "calls" in limit else turns)


async def test_the_start_is_the_question_the_schema_or_the_link_whose_query_is_the_first_best_one(
    walk: Guide,
) -> None:
    for start, shown in (("question", []), ("schema", ["museum", "`order`", "guide"])):
        await walked(walk, SUBMIT, overrides=(f"start={start}",))
        (_, user) = walk.bench.server.requests[-1].body["messages"]
        assert [line[9:] for line in user["content"].splitlines() if line.startswith("# Table: ")] == shown
    walk.bench.server.respond = lambda body: LOOK if body.get("tools") else None
    found = await walked(walk, overrides=("start=link", "limits.turns=2"))
    assert found.stages == ["forward_link", "preliminary_sql", "backward_link", "turn", "turn 2"]
    assert found.candidates == {"1_preliminary_sql": GOOD, "turn_1": GOOD, "turn_2": GOOD}
    assert set(found.record.links) == {"forward", "backward", "both"}
    (_, user) = walk.bench.server.requests[-2].body["messages"]
    assert f"### Current SQL\n{GOOD}" in user["content"]
    assert "guide" not in user["content"]


async def test_a_refusal_in_the_middle_keeps_the_best_query_and_a_lost_server_does_not(walk: Guide) -> None:
    too_long = error(
        400, "This model's maximum context length is 8192 tokens", code="context_length_exceeded"
    )
    found = await walked(walk, RUN, too_long)
    assert found.sql == OTHER
    assert found.record.notes[0].startswith("nothing was submitted: ")
    with pytest.raises(BackboneError):
        await walked(walk, too_long)
    walk.bench.server.script(RUN)
    walk.bench.server.always(server_error(503))
    with pytest.raises(BackboneError) as caught:
        await walk("agent")
    assert caught.value.transient


async def test_both_modes_of_the_scripted_agent_come_to_the_same_answers(tmp_path: Path) -> None:
    native = await offline_run("agent", home=tmp_path, limit=12)
    text = await offline_run("agent", "pipeline.tools=text", home=tmp_path, limit=12)
    assert {id: outcome.sql for id, outcome in native.outcomes.items()} == {
        id: outcome.sql for id, outcome in text.outcomes.items()
    }
    for outcome in (*native.outcomes.values(), *text.outcomes.values()):
        turns = [record.value for record in outcome.stages]
        assert [record.label for record in outcome.stages][:2] == ["turn", "turn 2"]
        assert len(turns) == len(outcome.candidates) <= 7
        assert turns[-1]["submitted"]
        assert outcome.notes == ()


async def test_candidates_of_agents_are_written_and_selected(tmp_path: Path) -> None:
    settings = ("pipeline.candidates.n=2", "pipeline.candidates.schema_formats=[comment]")
    found = await offline_run("agent", *settings, home=tmp_path, limit=3)
    for outcome in found.outcomes.values():
        labels = {record.label for record in outcome.stages}
        assert labels >= {"turn (candidate 1)", "turn 2 (candidate 2)", "vote"}


THINKING = 'backbone.extra_body={"thinking": {"type": "enabled", "budget_tokens": 2000}}'


@pytest.mark.parametrize(("backbone", "overrides", "mode"), [
    ("offline", (), "native"),
    ("openai", (), "native"),
    ("openai", ("pipeline.tools=text",), "text"),
    ("anthropic", (), "native"),
    ("anthropic", (THINKING,), "text"),
])  # fmt: skip
def test_auto_stands_for_what_the_backbone_can_do(
    tmp_path: Path, backbone: str, overrides: tuple[str, ...], mode: str
) -> None:
    chosen = {"benchmark": "demo", "backbone": backbone, "pipeline": "agent", "home": str(tmp_path)}
    pipeline = with_tool_mode(evaluation_settings(EvaluationChoice(**chosen, overrides=overrides)))
    assert isinstance(pipeline, AgentSettings) and pipeline.tools == mode


SNOOPING = (
    tool_calls(call("tables"), call("tables", contains="gold")),
    tool_calls(call("columns", tables=["museum", "order", "guide"]), call("columns", tables=["gold"])),
    tool_calls(call("search_values", text="xq_gold"), call("search_values", text="Lyon museums gold SQL")),
    tool_calls(call("run_sql", sql="SELECT * FROM gold"), call("run_sql", sql="SELECT * FROM sqlite_master")),
    tool_calls(call("read_file", path="dev.json"), call("run_sql", sql="SELECT readfile('dev.json')")),
    tool_calls(call("submit", sql="SELECT name FROM museum")),
)


@pytest.mark.slow
async def test_gold_is_in_nothing_that_any_tool_returns_sends_or_keeps(
    tmp_path: Path, fake_openai: FakeOpenAI, prefect_home: Home, prefect_api: Served
) -> None:
    files = Files(tmp_path / "data")

    def snoop(body: dict[str, Any]) -> Behaviour:
        return SNOOPING[sum(message["role"] == "assistant" for message in body["messages"])]

    fake_openai.respond = snoop
    outcomes, executed = await evaluated(files, prefect_home, fake_openai, ("agent",))
    assert [outcome.failure for outcome in outcomes] == [None, None]
    assert executed == 2 * len(SNOOPING)
    called = [call for outcome in outcomes for record in outcome.stages for call in record.value["calls"]]
    assert {each["name"] for each in called} >= set(TOOLS)
    assert not [each for each in called if MARKER in json.dumps(each)]
    assert not [each for each in fake_openai.requests if MARKER in json.dumps([each.body, each.headers])]
    kept = files_in(prefect_home, prefect_api.home)
    assert {path.name for path in kept} >= {"stages.sqlite", "replies.sqlite"}
    assert with_the_marker(kept) == []
    keys = list(kept_results(prefect_home))
    files.gold("another_gold")
    _, again = await evaluated(files, prefect_home, fake_openai, ("agent",))
    assert (again, list(kept_results(prefect_home))) == (0, keys), "gold is in no key"


async def test_the_tools_show_the_whole_schema_also_where_the_prompt_has_room_for_a_part_of_it_only(
    walk: Guide,
) -> None:
    walk.bench.server.script(tool_calls(call("columns", tables=["guide", "museum", "order"])), SUBMIT)
    found = await walk("agent", "start=schema", schema_room=200)
    (_, user) = walk.bench.server.requests[0].body["messages"]
    assert "The schema is reduced to what the question seems to need." in user["content"]
    assert "# Table: guide" not in user["content"]
    assert "(language:TEXT" in found.question_run.records[-2].value["calls"][0]["result"]


STEPS = (tool_calls(call("tables")), tool_calls(call("run_sql", sql="SELECT 1")), LOOK, SUBMIT)


def step(body: dict[str, Any]) -> Behaviour:
    return STEPS[min(sum(message["role"] == "assistant" for message in body["messages"]), len(STEPS) - 1)]


@pytest.mark.slow
async def test_a_changed_tool_costs_only_the_replies_behind_its_changed_result(
    tmp_path: Path, fake_openai: FakeOpenAI, prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path / "data")
    fake_openai.respond = step
    _, executed = await evaluated(files, prefect_home, fake_openai, ("agent",))
    assert executed == len(fake_openai.requests) == 2 * len(STEPS)

    async def changed(box: Toolbox, runner: DatabaseRunner, asked: SqlArguments) -> ToolResult:
        return ToolResult("Other rows.", sql=asked.sql)

    monkeypatch.setattr("flows.pipelines.agent.Toolbox", partial(Toolbox, version=-1))
    _, executed = await evaluated(files, prefect_home, fake_openai, ("agent",))
    assert (executed, len(fake_openai.requests)) == (2 * len(STEPS), 2 * len(STEPS)), (
        "results are what they were"
    )
    monkeypatch.setattr("flows.pipelines.agent.Toolbox", partial(Toolbox, version=-2))
    monkeypatch.setitem(TOOLS, "run_sql", AgentTool(SqlArguments, changed))
    _, executed = await evaluated(files, prefect_home, fake_openai, ("agent",))
    assert executed == 2 * len(STEPS)
    new = [received.body["messages"] for received in fake_openai.requests[2 * len(STEPS) :]]
    assert len(new) == 2 * (len(STEPS) - 2), "two turns a question have seen the changed result"
    assert all("Other rows." in json.dumps(messages) for messages in new)


@pytest.mark.slow
async def test_with_higher_limits_a_conversation_goes_on_from_the_first_notice(
    tmp_path: Path, fake_openai: FakeOpenAI, prefect_home: Home
) -> None:
    files = Files(tmp_path / "data")
    fake_openai.respond = lambda body: RUN
    _, first = await evaluated(files, prefect_home, fake_openai, ("agent", "pipeline.limits.turns=6"))
    outcomes, second = await evaluated(files, prefect_home, fake_openai, ("agent", "pipeline.limits.turns=9"))
    assert (first, second) == (2 * 6, 2 * 5), "four turns of each question had no notice, and are restored"
    assert [len(outcome.candidates) for outcome in outcomes] == [9, 9]
