"""Two runs against each other: the right verdict, on the right questions, with what a reader must know."""

import json
from dataclasses import replace

import pytest
from scipy.stats import binomtest

from tasks.core.errors import ConfigurationError
from tasks.core.outcome import Failure
from tasks.results.compare import compare
from tasks.results.comparison import Comparison, gated
from tasks.results.predictions_table import answer_in_words
from tasks.results.run_record import ORACLE, RunRecord, json_of
from tasks.scoring.scores import Accuracy, QuestionScore, Verdict
from tests.tasks.results.comparison_samples import (
    score,
    stored,
    two_runs,
    with_benchmark,
    with_row,
    with_status,
)
from tests.tasks.results.night_samples import unanswered


@pytest.mark.parametrize(("fixed", "broken", "verdict"), [
    (0, 0, "No difference: both runs are right on the same 100 and wrong on the same 100 of 200 questions."),
    (1, 0, "Inside the noise: +0.50 points"),
    (5, 0, "Inside the noise: +2.50 points"),
    (6, 0, "B beats A by 3.00 points"),
    (40, 5, "B beats A by 17.50 points"),
    (5, 40, "A beats B by 17.50 points"),
    (20, 20, "Inside the noise: 0.00 points"),
])  # fmt: skip
def test_the_verdict_follows_from_what_flipped(fixed: int, broken: int, verdict: str) -> None:
    found = compare(*two_runs(fixed, broken, 200))
    result = found.result
    assert result.verdict.startswith(verdict)
    assert [flip.change for flip in found.flips] == ["fixed"] * fixed + ["broken"] * broken
    assert (len(result.fixed), len(result.broken)) == (fixed, broken)
    assert result.both_right + result.both_wrong + fixed + broken == 200
    expected = binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
    assert result.p_value == pytest.approx(expected, rel=1e-9)


def test_parts_are_tested_by_themselves_and_adjusted_for_their_number() -> None:
    found = compare(*two_runs(30, 4, 120))
    for parts in (found.by_difficulty, found.by_database):
        assert sum(part.fixed or 0 for part in parts) == 30
        assert sum(part.a.total for part in parts if part.a) == 120
        for part in parts:
            assert part.fixed is not None and part.broken is not None
            assert part.p_value == pytest.approx(binomtest(part.fixed, part.fixed + part.broken).pvalue)
            assert part.p_value <= (part.adjusted_p or 0) <= 1
    assert [part.name for part in found.by_difficulty] == ["simple", "moderate", "challenging"]
    assert [part.name for part in found.by_database] == ["db0", "db1", "db2", "db3"]


@pytest.mark.parametrize("grades", [(None, None, None), ("level 2", None, "level 1")])
def test_grades_of_a_benchmarks_own_are_compared_by_name_and_no_grade_last(
    grades: tuple[str | None, ...],
) -> None:
    own = dict(zip(("simple", "moderate", "challenging"), grades, strict=True))

    def regraded(row: QuestionScore) -> QuestionScore:
        return replace(row, question=replace(row.question, difficulty=own[str(row.question.difficulty)]))

    runs = [run.model_copy(update={"rows": tuple(map(regraded, run.rows))}) for run in two_runs(2, 0, 6)]
    named = [part.name for part in compare(*runs).by_difficulty]
    assert named == (["level 1", "level 2", "ungraded"] if any(grades) else [])


def test_runs_are_compared_on_what_both_scored_and_what_is_left_out_is_counted() -> None:
    a = stored(score(number, True) for number in range(8))
    b = stored((score(number, number > 5, "b") for number in range(3, 15)), "b")
    found = compare(a, b)
    assert found.result.questions == 5
    assert (found.a.ex, found.b.ex) == (Accuracy(5, 5), Accuracy(2, 5))
    assert (found.a.left_out, len(found.b.left_out)) == (("0", "1", "2"), 7)
    assert [line.partition(" are left out")[0] for line in found.left_out] == [
        "3 questions that only A scored", "7 questions that only B scored",
    ]  # fmt: skip
    a, b = two_runs(3, 0, 10)
    found = compare(with_row(a, 4, executable=False), with_row(b, 4, executable=False))
    assert found.result.questions == 9
    assert (found.a.not_executable, found.b.not_executable) == (1, 1)
    assert (
        "1 question of A could not be scored, because the database or the gold is missing." in found.left_out
    )
    a, _ = two_runs(1, 0, 10)
    with pytest.raises(ConfigurationError, match=r"running.*scored no question"):
        compare(a, stored((), "b", status="running"))


@pytest.mark.parametrize(("change", "message"), [
    ({"benchmark": "spider-dev"}, "the benchmark differs"),
    ({"revision": "20231101"}, "the revision differs"),
    ({"question_sha256": "b2" * 32}, "the question file's sha256 differs"),
    ({"rule": "spider"}, r'"bird".*"spider".*--rule bird or spider or strict'),
])  # fmt: skip
def test_runs_that_do_not_mean_the_same_are_refused(change: dict[str, str], message: str) -> None:
    a, b = two_runs(3, 0, 10)
    with pytest.raises(ConfigurationError, match=message):
        compare(a, b.model_copy(update=change))  # type: ignore[arg-type]


def test_runs_on_databases_with_other_content_are_refused_and_said_to_be_where_the_engine_differs_too() -> (
    None
):
    a, b = two_runs(3, 0, 10)
    a = a.model_copy(update={"databases": {"shop": "a1" * 32, "zoo": "c3" * 32}})
    b = b.model_copy(update={"databases": {"shop": "b2" * 32, "zoo": "c3" * 32}})
    with pytest.raises(ConfigurationError, match=r"1 database changed between them \(shop\).*"):
        compare(a, b)
    other = b.model_copy(update={"engine": "PostgreSQL 15.6"})
    assert "The content of 1 database is not the same in A and B: shop." in compare(a, other).warnings
    unknown = b.model_copy(update={"databases": {}})
    assert compare(a, unknown).warnings == ()


def test_another_rule_can_be_chosen_where_both_were_judged_by_it() -> None:
    a, b = two_runs(3, 0, 10)
    strict = {"bird": True, "spider": True, "strict": False}
    b = with_row(b, 0, final=replace(b.rows[0].final, correct=strict))
    assert len(compare(a, b).flips) == 3
    assert len(compare(a, b, rule="strict").flips) == 2
    assert compare(a, b.model_copy(update={"rule": "spider"}), rule="strict").rule == "strict"
    other = compare(a, b.model_copy(update={"rule": "spider"}), rule="strict")
    assert "by the rule bird in A and spider in B, not by strict" in other.warnings[0]
    with pytest.raises(ConfigurationError, match='Did you mean "strict"'):
        compare(a, b, rule="strickt")


def test_what_a_reader_must_know_is_said() -> None:
    a, b = two_runs(6, 2, 50)
    assert compare(a, b).warnings == ()
    lost = Failure("backbone_error", "1", "It did not answer.", retryable=True)
    changed = {
        "executed by SQLite 3.45.1, B by SQLite 3.0.0": b.model_copy(update={"engine": "SQLite 3.0.0"}),
        "is partial": with_status(b, "partial"),
        "is still running": with_status(b, "running"),
        "was stopped before its end": with_status(b, "interrupted"),
        "is re-rolled": b.model_copy(update={"tags": {"rerolled": "12"}}),
        "stopped after 30.0 s in A and after 5.0 s in B": with_benchmark(b, timeout_s=5.0),
        "no answer to 1 question because": with_row(
            b, 0, outcome=replace(b.rows[0].outcome, sql=None, failure=lost), final=Verdict({}, "no_answer")
        ),
        "flipped although both runs answered with the same SQL": with_row(b, 0, outcome=a.rows[0].outcome),
        "had different results in the two runs: 30": with_row(
            b, 30, final=replace(b.rows[30].final, gold_status="timeout")
        ),
        "judged by different golds on 1 question: 3.": with_row(b, 3, gold_sql="SELECT 0"),
    }
    for phrase, other in changed.items():
        assert [line for line in compare(a, other).warnings if phrase in line], phrase
    assert "A and B are the same run." in compare(a, a).warnings
    faulty = (with_row(run, 0, final=Verdict({"bird": False}, "ok", gold_status="error")) for run in (a, b))
    assert any("a fault of the benchmark" in line for line in compare(*faulty).warnings)


def test_quarantined_questions_count_and_are_also_left_out() -> None:
    a, b = (with_benchmark(run, quarantine=["0", "1", "99"]) for run in two_runs(6, 0, 50))
    found = compare(a, b)
    assert found.result.headline == "B beats A by 12.00 points"
    (without,) = found.variants.values()
    assert (without.name, without.b and without.b.differs.withdrawn) == ("without_quarantine", ("0", "1"))
    assert (without.result.questions, without.result.headline) == (48, "Inside the noise")
    assert any("different quarantine lists" in line for line in compare(a, two_runs(6, 0, 50)[1]).warnings)


def test_stages_that_only_one_run_has_are_shown_without_a_test() -> None:
    stages = ("1_preliminary_sql", "2_augmented_sql", "10_late")
    a = stored(score(number, number > 5) for number in range(10))
    b = stored((score(number, number > 2, "b", stages) for number in range(10)), "b")
    first, second, last = compare(a, b).stages
    assert (first.name, first.fixed, first.broken) == ("1_preliminary_sql", 3, 0)
    assert (second.name, second.a, second.b, second.p_value) == (
        "2_augmented_sql",
        None,
        Accuracy(7, 10),
        None,
    )
    assert last.name == "10_late"
    (reached, *_) = compare(a, with_row(b, 3, stages={})).stages
    assert reached.b == Accuracy(6, 10), "a question that did not reach a stage is wrong there"
    other = stored((score(number, number > 2, "b", ("1_other", "2_other")) for number in range(10)), "b")
    assert [each.name for each in compare(b, other).stages] == [*stages, "1_other", "2_other"]


def test_the_bill_tells_what_was_paid_from_what_was_used() -> None:
    a, b = two_runs(1, 0, 4)
    free = [replace(record, restored=True) for record in b.rows[0].outcome.stages]
    b = with_row(b, 0, outcome=replace(b.rows[0].outcome, stages=tuple(free)))
    found = compare(a, b)
    assert (found.a.cost.calls, found.a.cost.cost_usd, found.a.input_tokens) == (4, 1.0, 400)
    assert (found.b.cost.calls, found.b.cost.cached_calls, found.b.cost.cost_usd) == (3, 1, 0.75)
    assert found.b.input_tokens == 400
    silent = [replace(record, calls=(replace(record.calls[0], cost_usd=None),)) for record in free]
    paid = [replace(record, restored=False) for record in silent]
    b = with_row(b, 0, outcome=replace(b.rows[0].outcome, stages=tuple(paid)))
    assert compare(a, b).b.cost.cost_usd is None


def test_what_differs_in_the_settings_is_listed() -> None:
    a, b = two_runs(1, 0, 4)
    settings = {
        **b.settings,
        "pipeline": {"name": "rsl-sql", "selection": {"enabled": False, "rows_shown": 5}},
    }
    found = compare(a, b.model_copy(update={"settings": settings, "git_commit": "c0ffee" * 6 + "-dirty"}))
    assert [(change.key, change.a, change.b) for change in found.settings] == [
        ("pipeline.selection.enabled", "true", "false"),
        ("crosscheck.git_commit", "0464afb", "c0ffeec0ffee-dirty"),
    ]


def test_the_object_is_json_and_holds_every_flip() -> None:
    found = json.loads(json.dumps(json_of(compare(*two_runs(6, 2, 50)))))
    result = found["result"]
    assert (result["better"], len(result["fixed"]), len(result["broken"]), result["both_wrong"]) == (
        None,
        6,
        2,
        21,
    )
    assert result["needed_net"] == 8
    assert found["a"]["ex"]["correct"] + 4 == found["b"]["ex"]["correct"]
    assert [flip["question_id"] for flip in found["flips"]] == [str(number) for number in range(8)]
    assert found["flips"][0]["a"] == {
        "sql": "SELECT 0 FROM a", "correct": False, "status": "ok", "error": None, "row_count": 0, "failure": None,
        "stages": {"1_preliminary_sql": False}, "in_words": "wrong, 0 rows",
    }  # fmt: skip


def test_how_an_answer_fared_is_said_in_words() -> None:
    row = score(1, True)
    judged = {
        "right, 1 row": row,
        "wrong, 1,200 rows": replace(row, final=Verdict({"bird": False}, "ok", row_count=1200)),
        "wrong, does not run: no such column: x": replace(
            row, final=Verdict({}, "error", "no such column: x")
        ),
        "wrong, stopped at the time limit": replace(row, final=Verdict({}, "timeout")),
        "no answer": replace(row, final=Verdict({}, "no_answer")),
    }
    for words, each in judged.items():
        assert answer_in_words(each, "bird") == words


def test_the_winner_is_named_and_its_difference_is_positive() -> None:
    a, b = two_runs(2, 14, 60)
    named = b.model_copy(update={"backbone": "small"})
    found = compare(a.model_copy(update={"backbone": "large"}), named).result
    assert found.headline == "large beats small by 20.00 points"
    assert "interval +" in found.reason and "p = 0.0042" in found.reason


def gate(a: RunRecord, b: RunRecord, margin: float | None = None) -> Comparison:
    return gated(compare(a, b, margin=margin))


@pytest.mark.parametrize(("fixed", "broken", "failed"), [
    (0, 0, False), (14, 2, False), (2, 5, False), (2, 14, True), (0, 6, True), (0, 5, False),
])  # fmt: skip
def test_without_a_margin_it_fails_where_b_is_proven_to_be_worse(
    fixed: int, broken: int, failed: bool
) -> None:
    found = gate(*two_runs(fixed, broken, 60)).gate
    assert found is not None and found.failed is failed


@pytest.mark.parametrize(("fixed", "broken", "margin", "failed"), [
    (0, 0, 0.05, False), (0, 0, 0.01, True), (2, 5, 0.02, True), (2, 5, 0.10, False), (30, 5, 0.01, False),
])  # fmt: skip
def test_with_a_margin_it_fails_unless_b_is_proven_not_to_be_worse_by_it(
    fixed: int, broken: int, margin: float, failed: bool
) -> None:
    found = gate(*two_runs(fixed, broken, 113), margin=margin)
    assert found.gate is not None and found.gate.failed is failed
    assert found.noninferiority is not None and found.gate.reason == found.noninferiority.verdict


BEFORE, AFTER = two_runs(14, 2, 60)
LOSS = two_runs(0, 8, 60)


@pytest.mark.parametrize(("a", "b", "why"), [
    *((BEFORE, with_status(AFTER, status), rf"cannot decide: the run .* \(B\) is {status}")
      for status in ("partial", "interrupted", "running")),
    (BEFORE, BEFORE, "the same run"),
    (BEFORE, AFTER.model_copy(update={"tags": {ORACLE: "both"}}), "B saw parts of the gold SQL"),
    (LOSS[0], unanswered(LOSS[1], range(8)), "no answer to 8 questions"),
])  # fmt: skip
def test_a_gate_refuses_to_decide(a: RunRecord, b: RunRecord, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        gate(a, b)


def test_questions_that_one_run_did_not_answer_prove_nothing_nor_does_a_margin_of_everything() -> None:
    a, b = two_runs(8, 0, 113)
    lost = unanswered(a, range(8))
    assert not gate(a, b, margin=0.01).gate.failed  # type: ignore[union-attr]
    assert gate(lost, b, margin=0.01).gate.failed  # type: ignore[union-attr]
    assert gate(lost, b).gate.failed is False  # type: ignore[union-attr]
    with pytest.raises(ConfigurationError, match="above 0 and below 100"):
        compare(*two_runs(0, 0, 20), margin=2.0)
