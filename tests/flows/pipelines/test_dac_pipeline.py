"""DAC as a whole: what is asked in which order, what is fed back, what is rejected, and what every switch changes."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from flows.pipelines.dac import decompose
from flows.pipelines.pipeline import Context, PipelineRecord
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import StageRecord
from tasks.core.records import ColumnName, Entities, Oracle, ParsedSkeleton, Question
from tasks.settings.pipeline import FewShotSettings
from tasks.settings.stages import DacCorrectionSettings
from tasks.stages.question_run import QuestionRun, in_question_run
from tests.support.dac_prompts import GROUNDED
from tests.support.fake_openai import Body, dropped, reply
from tests.support.guide import Guide, Walk
from tests.support.stage_bench import ENDLESS, QUESTION, Bench

FIRST = "SELECT name FROM museum"
OF_LYON = "SELECT name FROM museum WHERE city = 'Lyon'"
ORDERED = "SELECT name FROM museum WHERE city = 'Lyon' ORDER BY name"
DISTINCT = "SELECT DISTINCT name FROM museum WHERE city = 'Lyon'"
WRONG = "SELECT nam FROM museum"
LYON = {"alignment": [{"token": "Lyon", "schema": "museum.city", "type": "val"}]}
NOTHING: dict[str, Any] = {"alignment": []}
PARSED_DISTINCT = {"sql": "SELECT DISTINCT title FROM book WHERE author = 'x'"}
ALONE = "dac.question=question"
"""Without the question's evidence, which names a column and a table more."""
LACKING = "The question mentions the column museum.city, which the query does not use, or uses only to join."

Dac = Callable[..., Awaitable[Walk]]


def replies(**changes: Any) -> dict[str, Any]:
    """A first SQL that lacks the city, which the question mentions; its skeleton is the one parsed once it has it."""
    plain = {
        "initial_sql": {"sql": FIRST},
        "entity_linking": LYON,
        "skeleton_parsing": {"sql": "SELECT title FROM book WHERE author = 'x'"},
        "dac_correction": {"sql": OF_LYON},
    }
    return plain | changes


@pytest.fixture
def dac(walk: Guide) -> Dac:
    """Take a question without its evidence through DAC: `await dac("dac.rounds=4", dac_correction=...)`."""

    async def run(*overrides: str, further: dict[str, Any] | None = None, **changes: Any) -> Walk:
        walk.replies = replies(**changes)
        return await walk("dac", ALONE, *overrides, **{"grounded": GROUNDED} | (further or {}))

    return run


def feedback_of(walked: Walk) -> list[str]:
    """The first words of each feedback, in order."""
    prompts = walked.asked["dac_correction"]
    return [prompt.partition("### Feedback\n")[2].partition("\n")[0] for prompt in prompts]


def labels_of(walked: Walk) -> list[str]:
    """Labels of the stages, the two that run together in alphabetical order."""
    labels = [record.label for record in walked.question_run.records]
    together = sorted(label for label in labels if label in ("entity_linking", "skeleton_parsing"))
    first = min((labels.index(label) for label in together), default=0)
    return [*labels[:first], *together, *labels[first + len(together) :]]


def records_of(walked: Walk, stage: str) -> list[StageRecord]:
    return [record for record in walked.question_run.records if record.stage == stage]


def section_of(prompt: str, heading: str) -> str:
    return prompt.partition(f"### {heading}\n")[2].partition("\n\n###")[0].strip()


async def test_what_the_question_mentions_and_the_sql_lacks_is_fed_back_once(dac: Dac) -> None:
    found = await dac()
    assert labels_of(found) == [
        "question_values", "initial_sql", "execution_feedback", "entity_linking", "skeleton_parsing", "dac_correction",
    ]  # fmt: skip
    assert found.calls == 4
    assert found.candidates == {
        "1_initial_sql": FIRST, "2_dac_execution": FIRST, "3_dac_entities": OF_LYON, "4_dac_skeleton": OF_LYON,
    }  # fmt: skip
    assert found.sql == OF_LYON
    assert feedback_of(found) == [LACKING]
    assert found.record.notes == []
    right = await dac(initial_sql={"sql": OF_LYON})
    assert (right.calls, right.sql, right.asked["dac_correction"]) == (3, OF_LYON, [])


async def test_an_execution_error_is_fed_back_first_then_entities_then_the_skeleton(dac: Dac) -> None:
    turns = [{"sql": sql} for sql in (FIRST, OF_LYON, DISTINCT)]
    found = await dac(initial_sql={"sql": WRONG}, skeleton_parsing=PARSED_DISTINCT, dac_correction=turns)
    first, second, third = feedback_of(found)
    assert (first, second) == ("Running the query fails. Error: no such column: nam", LACKING)
    assert third.startswith("The structure ")
    assert section_of(found.asked["dac_correction"][2], "Current SQL") == OF_LYON
    assert "select distinct _ from _ where _ = _" in found.asked["dac_correction"][2]
    assert list(found.candidates.values()) == [WRONG, FIRST, OF_LYON, DISTINCT] and found.sql == DISTINCT
    assert FIRST in found.asked["entity_linking"][0], "linking sees the SQL that executes"
    assert WRONG not in found.asked["entity_linking"][0]


async def test_a_correction_that_fails_to_execute_is_rejected_and_may_be_followed_by_another(
    dac: Dac,
) -> None:
    for failing in [WRONG, ENDLESS, "DROP TABLE museum"]:
        found = await dac("dac.skeleton=false", dac_correction={"sql": failing})
        assert found.sql == FIRST
        assert len(found.asked["dac_correction"]) == 3, "it is tried again, at a higher temperature"
        corrections = records_of(found, "dac_correction")
        assert {record.value["outcome"] for record in corrections} == {"rejected"}
        assert all("the SQL before it was kept" in record.notes[0] for record in corrections)
    found = await dac(dac_correction=[{"sql": WRONG}, {"sql": OF_LYON}])
    assert found.sql == OF_LYON
    assert section_of(found.asked["dac_correction"][1], "Current SQL") == FIRST


async def test_the_same_sql_coming_back_ends_its_kind_of_feedback(dac: Dac) -> None:
    found = await dac(
        skeleton_parsing={"sql": "SELECT DISTINCT title FROM book"},
        dac_correction={"sql": "select name\nfrom `museum`;"},
    )
    assert [text.split()[1] for text in feedback_of(found)] == ["question", "structure"], "one round each"
    assert found.sql == FIRST


async def test_rounds_are_used_up_when_nothing_satisfies_and_later_ones_are_warmer(
    walk: Guide, dac: Dac
) -> None:
    turns = [{"sql": f"SELECT name FROM museum WHERE id = {number}"} for number in range(91, 99)]
    settings = ("dac.rounds=4", "dac.skeleton=false", "dac.later_temperature=0.9")
    found = await dac(*settings, dac_correction=turns)
    assert len(found.asked["dac_correction"]) == 4
    assert found.sql == "SELECT name FROM museum WHERE id = 94", "an empty result is accepted too"
    bodies = [received.body for received in walk.bench.server.requests]
    asked = [body for body in bodies if "<dac_correction>" in body["messages"][0]["content"]]
    assert [body.get("temperature") for body in asked] == [0.0, 0.9, 0.9, 0.9]


async def test_a_skeleton_longer_than_the_sqls_own_is_feedback_unless_switched_off(dac: Dac) -> None:
    longer = {
        "entity_linking": NOTHING,
        "skeleton_parsing": {"sql": "SELECT a FROM b WHERE c = 1 ORDER BY d DESC"},
        "dac_correction": {"sql": ORDERED},
    }
    assert (await dac("dac.rounds=1", **longer)).sql == ORDERED, "as in the paper"
    assert (await dac("dac.never_longer=true", **longer)).sql == FIRST, "as released"


VALUES, INITIAL, EXECUTION = "question_values", "initial_sql", "execution_feedback"
LINKING, PARSING, CORRECTION = "entity_linking", "skeleton_parsing", "dac_correction"


@pytest.mark.parametrize(("overrides", "stages", "last"), [
    (["dac.entities=false"], [VALUES, INITIAL, EXECUTION, PARSING, CORRECTION], OF_LYON),
    (["dac.skeleton=false"], [VALUES, INITIAL, EXECUTION, LINKING, CORRECTION], OF_LYON),
    (["dac.execution=false", "dac.values=0"], [INITIAL, LINKING, PARSING, CORRECTION], OF_LYON),
    (["dac.execution=false", "dac.entities=false", "dac.skeleton=false"], [VALUES, INITIAL], FIRST),
])  # fmt: skip
async def test_ablations_leave_their_stages_out(
    dac: Dac, overrides: list[str], stages: list[str], last: str
) -> None:
    found = await dac(*overrides)
    assert (labels_of(found), found.sql) == (stages, last)


async def test_demonstrations_are_as_many_as_asked_for_and_show_their_evidence_where_the_question_has_its_own(
    walk: Guide, dac: Dac
) -> None:
    found = await dac("demonstrations.k=1", "dac.shots=2")
    assert found.asked["initial_sql"][0].count("\nQuestion: ") == 1
    assert found.asked["entity_linking"][0].count("\nAlignment: ") == 2
    assert found.asked["skeleton_parsing"][0].count("\nQuestion: ") == 2
    assert "### Examples" not in found.asked["dac_correction"][0]
    assert "Evidence: zoos" not in found.asked["skeleton_parsing"][0]
    shown = await walk("dac", "demonstrations.k=1", grounded=GROUNDED)
    assert "Evidence: zoos" in shown.asked["initial_sql"][0]
    assert shown.asked["initial_sql"] == found.asked["initial_sql"], "the setting is of the sub-tasks alone"
    assert "Evidence: zoos" in shown.asked["skeleton_parsing"][0]
    corrected = (await dac("dac.correction_shots=2")).asked["dac_correction"][0]
    assert "Evidence: zoos" in corrected
    assert corrected.count("\nQuestion: ") == 2 and GROUNDED[1].sql in corrected
    aligned = await walk("dac", grounded=GROUNDED[:1], aligned=GROUNDED[1:2])
    assert GROUNDED[1].question in aligned.asked["entity_linking"][0]
    assert GROUNDED[0].question not in aligned.asked["entity_linking"][0]
    assert GROUNDED[0].question in aligned.asked["skeleton_parsing"][0]


async def test_the_evidence_is_part_of_the_question_unless_switched_off(walk: Guide, dac: Dac) -> None:
    same = {
        "initial_sql": {"sql": OF_LYON}, "entity_linking": NOTHING, "dac_correction": {"sql": OF_LYON}
    }  # fmt: skip
    walk.replies = replies(**same)
    found = await walk("dac", grounded=GROUNDED)
    for stage in (INITIAL, LINKING, PARSING):
        assert QUESTION.evidence in found.asked[stage][0]
    assert records_of(found, LINKING)[0].value["entities"] == {
        "tables": ["museum", "order"],
        "columns": [{"table": "museum", "column": "city"}],
    }
    assert feedback_of(found) == [
        "The question mentions the table `order`, which the query does not use, or uses only to join."
    ]
    alone = await dac(**same)
    assert QUESTION.evidence not in alone.asked[LINKING][0] and not alone.asked[CORRECTION]
    parsed = alone.asked[PARSING][0]
    assert QUESTION.text in parsed and QUESTION.evidence not in parsed
    assert "museum" not in parsed.replace(QUESTION.text, ""), "skeleton parsing sees no schema"


async def test_a_second_generation_sees_what_was_linked_and_is_kept_only_if_it_executes(dac: Dac) -> None:
    for again, kept in ((OF_LYON, OF_LYON), (WRONG, FIRST), ("?", FIRST)):
        found = await dac(
            "dac.second_generation=true", "dac.skeleton=false",
            initial_sql=[{"sql": FIRST}, {"sql": again}], dac_correction={"sql": ORDERED},
        )  # fmt: skip
        assert found.candidates["3_dac_second_generation"] == kept
        whole, pruned = (section_of(prompt, "Schema") for prompt in found.asked["initial_sql"])
        assert "CREATE TABLE guide" in whole and "opened in" in whole
        assert "CREATE TABLE guide" not in pruned and "opened in" not in pruned
        assert all(f"  {name}" in pruned for name in ("id INTEGER", "name TEXT", "city TEXT"))


async def test_of_several_sqls_the_one_whose_result_most_return_goes_on(walk: Guide) -> None:
    async def of(said: list[Any], *overrides: str) -> Walk:
        walk.replies = replies(initial_sql=said)
        consistency = f"dac.consistency={len(said)}"
        off = ("dac.entities=false", "dac.skeleton=false", consistency)
        return await walk("dac", *off, *overrides, grounded=GROUNDED)

    third = "SELECT name FROM museum WHERE id = 1"
    found = await of([{"sql": sql} for sql in (FIRST, OF_LYON, third, WRONG, FIRST)])
    assert found.calls == 5
    assert found.sql in (FIRST, OF_LYON), "two return every name, two those of Lyon"
    asked = [received.body for received in walk.bench.server.requests]
    assert sorted(body.get("temperature") for body in asked) == [0.0, 0.7, 0.7, 0.7, 0.7]
    assert found.candidates["1_initial_sql"] == found.sql
    assert (await of([{"sql": sql} for sql in (WRONG, WRONG, OF_LYON)])).sql == OF_LYON
    assert (await of(["?", "?"], "dac.execution=false")).sql is None


async def test_strict_feedback_demands_rejects_what_is_longer_and_repeats_only_while_less_is_missing(
    dac: Dac,
) -> None:
    strict = ("dac.feedback=strict", "dac.skeleton=false")
    found = await dac(*strict)
    assert feedback_of(found) == [
        "The query must contain the tables and columns that the question mentions: the column museum.city."
    ]
    assert found.sql == FIRST, "its skeleton is longer"
    assert "may be mistaken" not in found.asked[CORRECTION][0]
    city = "SELECT city FROM museum"
    assert (await dac(*strict, dac_correction={"sql": city}, further={"grounded": ()})).sql == city


async def test_values_that_the_question_mentions_come_first(dac: Dac) -> None:
    about = {"question": Question("1", "Does the Old Mill of ghent sell?", "museum")}
    shown = (await dac(further=about)).asked["initial_sql"][0]
    assert "name TEXT, -- Examples: 'Old Mill', 'Glass House', 'Toy Hall'" in shown
    assert "city TEXT, -- Examples: 'Ghent', 'Lyon'\n" in shown
    without = await dac("dac.values=0", further=about)
    assert "name TEXT, -- Examples: 'Glass House', 'Toy Hall', 'Old Mill'" in without.asked["initial_sql"][0]


async def test_correction_sees_the_tables_of_the_sql_and_of_what_is_missing(dac: Dac) -> None:
    joined = "SELECT m.name FROM museum m JOIN `order` o ON m.id = o.museum_id WHERE o.`total.eur` > 0"
    found = await dac(
        "dac.skeleton=false",
        entity_linking={"alignment": [{"token": "sold", "schema": "order.total.eur", "type": "col"}]},
        dac_correction={"sql": joined},
    )
    assert "CREATE TABLE `order`" not in found.asked[LINKING][0]
    (prompt,) = found.asked[CORRECTION]
    assert "CREATE TABLE museum" in prompt and "CREATE TABLE `order`" in prompt
    assert "CREATE TABLE guide" not in prompt
    aligned = '- "museums": museum (table)\n- "sold": `order`.`total.eur` (column)'
    assert section_of(prompt, "Alignment") == aligned


MALFORMED = [
    "",
    "I do not know.",
    "{",
    '{"sql": 1}',
    '{"other": "x"}',
    "[[[",
    '{"alignment": "Lyon"}',
    "null",
]


async def test_an_unreadable_alignment_leaves_the_names_and_is_recorded(dac: Dac) -> None:
    for text in MALFORMED:
        found = await dac(entity_linking=text, skeleton_parsing={"sql": FIRST})
        assert found.sql == FIRST
        (linking,) = records_of(found, LINKING)
        assert linking.value["note"] and linking.notes
        assert linking.value["entities"] == {"tables": ["museum"], "columns": []}
        assert found.record.notes == ["entity linking: the reply could not be read: linked by names alone"]


async def test_an_unreadable_skeleton_is_no_feedback_and_is_recorded(dac: Dac) -> None:
    for text in [*MALFORMED, '{"sql": ""}', '{"sql": "SELECT FROM WHERE"}', '{"sql": "DROP TABLE x"}']:
        found = await dac(entity_linking=NOTHING, skeleton_parsing=text)
        assert found.sql == FIRST and not found.asked[CORRECTION]
        (parsing,) = records_of(found, PARSING)
        assert parsing.value["skeleton"] is None and parsing.value["note"]
        assert any(note.startswith("skeleton parsing: ") for note in found.record.notes)


async def test_an_unreadable_correction_keeps_the_sql_and_is_recorded(dac: Dac) -> None:
    for text in MALFORMED:
        found = await dac("dac.rounds=2", "dac.skeleton=false", dac_correction=text)
        assert found.sql == FIRST
        corrections = records_of(found, CORRECTION)
        assert [record.value["outcome"] for record in corrections] == ["unreadable", "unreadable"]
        assert all(record.notes for record in corrections)


async def test_an_unreadable_first_sql_is_written_by_the_correction_or_there_is_none(dac: Dac) -> None:
    for text in MALFORMED:
        found = await dac(initial_sql=text, entity_linking=NOTHING)
        assert feedback_of(found)[0] == "There is no query."
        assert "### Current SQL" not in found.asked[CORRECTION][0]
        assert list(found.candidates.values()) == [None, OF_LYON, OF_LYON, OF_LYON]
    nothing = await dac(initial_sql="?", entity_linking=NOTHING, dac_correction="?")
    assert nothing.sql is None and list(nothing.candidates.values()) == [None] * 4


async def test_oracle_parts_are_not_asked_for_and_none_that_no_flow_made_is_taken(dac: Dac) -> None:
    city = Entities(("museum",), (ColumnName("museum", "city"),))
    oracle = {"oracle": Oracle(city, ParsedSkeleton("select _ from _ where _ = _"))}
    for which, absent in (("entities", {LINKING}), ("skeleton", {PARSING}), ("both", {LINKING, PARSING})):
        found = await dac(f"dac.oracle={which}", further=oracle)
        asked = {record.stage for record in found.question_run.records}
        assert {LINKING, PARSING} - asked == absent
        assert found.sql == OF_LYON
        with pytest.raises(ConfigurationError, match=r"dac\.oracle=none"):
            await dac(f"dac.oracle={which}")


async def test_an_oracle_at_hand_is_not_looked_at_unless_asked_for(dac: Dac) -> None:
    oracle = {"oracle": Oracle(Entities(("guide",)), ParsedSkeleton("select distinct _ from _"))}
    parsed = {"sql": "SELECT title FROM book"}
    found = await dac(entity_linking=NOTHING, skeleton_parsing=parsed, further=oracle)
    assert found.sql == FIRST
    assert {LINKING, PARSING} <= {record.stage for record in found.question_run.records}


async def test_rsl_sql_is_followed_by_the_correction(walk: Guide) -> None:
    walk.replies |= replies()
    walk.replies |= {
        name: {"sql": FIRST} for name in ("preliminary_sql", "augmented_sql", "binary_selection")
    }
    found = await walk("rsl-sql+dac", ALONE, grounded=GROUNDED)
    labels = labels_of(found)
    assert labels[labels.index("self_correction") :] == [
        "self_correction", VALUES, EXECUTION, LINKING, PARSING, CORRECTION
    ]  # fmt: skip
    assert list(found.candidates)[3:] == [
        "4_self_correction", "5_dac_execution", "6_dac_entities", "7_dac_skeleton"
    ]  # fmt: skip
    assert (found.candidates["4_self_correction"], found.sql) == (FIRST, OF_LYON)
    off = await walk("rsl-sql", grounded=GROUNDED)
    assert list(off.candidates)[-1] == "4_self_correction"


@pytest.mark.parametrize("part", [LINKING, PARSING])
async def test_a_part_that_fails_leaves_the_other_recorded(bench: Bench, part: str) -> None:
    def asked(body: Body) -> str:
        return LINKING if '"alignment"' in body["messages"][-1]["content"] else PARSING

    def answer(body: Body) -> str:
        if asked(body) == part:
            raise ConnectionError
        return json.dumps(replies()[asked(body)])

    bench.server.answer = answer
    bench.server.delay = lambda body: 0.2 * (asked(body) != part)
    context = Context(FewShotSettings(), bench.runner, (), bench.backbone, PipelineRecord())
    with in_question_run(QuestionRun(QUESTION)) as question_run:
        view = await context.view_for(QUESTION, descriptions=False)
        decomposition = await decompose(QUESTION, view, DacCorrectionSettings(), context)
        with pytest.raises(BackboneError):
            await decomposition.correct(OF_LYON)
    recorded = {
        record.stage: len(record.calls) for record in question_run.records if record.calls or record.error
    }
    assert recorded == {LINKING: 1, PARSING: 1} | {part: 0}


async def test_a_sql_that_is_not_written_leaves_the_others_recorded(bench: Bench) -> None:
    bench.server.script(dropped(), *[reply(json.dumps({"sql": FIRST}), delay=0.2)] * 4)
    context = Context(FewShotSettings(), bench.runner, (), bench.backbone, PipelineRecord())
    with in_question_run(QuestionRun(QUESTION)) as question_run:
        view = await context.view_for(QUESTION, descriptions=False)
        settings = DacCorrectionSettings(consistency=5, values=0)
        decomposition = await decompose(QUESTION, view, settings, context)
        with pytest.raises(BackboneError):
            await decomposition.generate(view)
    assert sorted(len(record.calls) for record in question_run.records) == [0, 1, 1, 1, 1]
