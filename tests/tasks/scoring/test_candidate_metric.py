"""The figures of candidates, against a computation by every subset of candidates."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import comb, sqrt
from statistics import fmean, stdev
from typing import Any

import pytest

from tasks.core.outcome import Call, StageRecord, Usage
from tasks.scoring.candidates import bills_of, step_of
from tasks.scoring.execution.judge_job import Ballot
from tasks.scoring.metric import ScoredRun
from tasks.scoring.metrics.candidates import (
    candidate_tables,
    candidates,
    chosen_at_k,
    majority_at_k,
    pass_at_k,
)
from tasks.scoring.scores import QuestionScore, Ratio
from tasks.settings.pipeline import CandidateSettings
from tests.tasks.results.samples import record_with
from tests.tasks.scoring.samples import score

N = 6


def written(label: str, *, cached: bool = False, tokens: int | None = 100) -> StageRecord:
    usage = Usage(input=tokens, output=tokens)
    usd = 0.0006 if tokens else None
    call = Call("key", "model", usage, cached, 0.1, cost_usd=0.0 if cached else usd, from_scratch_usd=usd)
    return StageRecord(label.partition(" ")[0], label, None, False, (call,))


def question(name: str, ballot: Ballot, right: Sequence[bool], *, chosen: bool, grade: str) -> QuestionScore:
    stages = {"1_initial_sql": "bird" if right[0] else ""}
    stages |= {step_of(number): "bird" if good else "" for number, good in enumerate(right, 1)}
    records = [written(f"initial_sql (candidate {number})", cached=number > 2) for number in range(1, N + 1)]
    vote = {"statuses": list(ballot.statuses), "leaders": list(ballot.leaders)}
    records += [StageRecord("vote", "vote", vote, False), written("compare_candidates 2")]
    return score(name, "bird" if chosen else "", stages=stages, records=tuple(records), difficulty=grade)


def measured(rows: Sequence[QuestionScore], setup: CandidateSettings) -> Any:
    return candidates.of(ScoredRun("bird", rows, {}, measured={"candidates": setup}))


@pytest.fixture(scope="module")
def questions() -> list[tuple[Ballot, list[bool], QuestionScore]]:
    draw, made = random.Random(7), []
    for place in range(25):
        values = [draw.randrange(3) for _ in range(N)]
        statuses = tuple("ok" if value else draw.choice(("ok", "empty")) for value in values)
        keys = list(zip(values, statuses, strict=True))
        ballot = Ballot(statuses, tuple(keys.index(key) for key in keys))
        right = [key == (1, "ok") for key in keys]
        grade = ("simple", "challenging")[place % 2]
        row = question(str(place), ballot, right, chosen=right[ballot.winner()], grade=grade)
        made.append((ballot, right, row))
    return made


def test_every_k_is_what_all_choices_of_k_candidates_give(
    questions: list[tuple[Ballot, list[bool], QuestionScore]],
) -> None:
    found = measured([row for *_, row in questions], CandidateSettings(n=N, select="vote"))
    for k in range(1, N + 1):
        subsets = list(combinations(range(N), k))
        passed = [fmean(any(right[p] for p in s) for s in subsets) for _, right, _ in questions]
        voted = [fmean(right[ballot.winner(s)] for s in subsets) for ballot, right, _ in questions]
        point = found.data["curve"][k - 1]
        assert point["pass"]["value"] == pytest.approx(fmean(passed))
        assert point["majority"]["value"] == pytest.approx(fmean(voted))
        assert found.data[f"pass@{k}"]["total"] == 25
        assert point["usd"] == pytest.approx(k * 0.0006), "a cached call costs what it would without a cache"
        assert (point["calls"], point["tokens"]) == pytest.approx((k, 200 * k))
        low, high = point["majority"]["interval"]
        assert low < point["majority"]["value"] < high
    assert [value.value for value in found.series["candidates/pass_at_k"]] == [
        point["pass"]["value"] for point in found.data["curve"]
    ]


def test_selection_is_counted_where_candidates_disagree_and_its_gain_has_a_price(
    questions: list[tuple[Ballot, list[bool], QuestionScore]],
) -> None:
    rows = [row for *_, row in questions]
    found = measured(rows, CandidateSettings(n=N, select="tournament"))
    mixed = [(ballot, right) for ballot, right, _ in questions if any(right) and not all(right)]
    won = sum(right[ballot.winner()] for ballot, right in mixed)
    assert found.further["candidates/selection"] == Ratio(won, len(mixed))
    gain, ones = found.data["gain"], [right.count(True) / N for _, right, _ in questions]
    selected = [right[ballot.winner()] for ballot, right, _ in questions]
    assert gain["points"] == pytest.approx(100 * (fmean(selected) - fmean(ones)))
    differences = [right - share for right, share in zip(selected, ones, strict=True)]
    half = 100 * 1.959964 * stdev(differences) / sqrt(25)
    assert gain["interval"] == pytest.approx([gain["points"] - half, gain["points"] + half], abs=0.1 * half)
    assert gain["extra_calls"] == pytest.approx(N - 1 + 1)
    assert gain["extra_usd_per_1000"] == pytest.approx(1000 * N * 0.0006)
    assert gain["usd_per_1000_and_point"] == pytest.approx(gain["extra_usd_per_1000"] / gain["points"])
    assert found.lines[0].startswith(f"Candidates: {N} per question; means over 25 questions: pass@1 ")
    assert candidate_tables(found.data)[0].caption == "means over 25 questions"
    by_grade = found.data["by_difficulty"]
    assert {each["difficulty"]: each["questions"] for each in by_grade} == {"simple": 13, "challenging": 12}
    assert sum(each["selected"]["correct"] for each in by_grade) == sum(selected)


def test_a_failed_question_stays_in_the_denominator_and_an_unknown_price_is_no_zero(
    questions: list[tuple[Ballot, list[bool], QuestionScore]],
) -> None:
    failed = score("failed", sql=None, records=(written("initial_sql (candidate 1)", tokens=None),))
    rows = [*(row for *_, row in questions), failed]
    found = measured(rows, CandidateSettings(n=N, select="vote"))
    assert found.data["pass@6"]["total"] == 26
    last = found.data["curve"][-1]
    assert (last["usd"], last["tokens"]) == (None, None)
    assert last["calls"] == pytest.approx((25 * N + 1) / 26)
    assert "candidates/usd_at_k" not in found.series
    assert found.data["gain"]["usd_per_1000_and_point"] is None
    assert "for unknown tokens and 5.8 calls more per question" in found.lines[1]


def test_equal_gains_of_few_questions_are_not_certain_and_one_answer_has_no_figures(
    questions: list[tuple[Ballot, list[bool], QuestionScore]],
) -> None:
    found = measured([questions[0][2]], CandidateSettings(n=N, select="vote"))
    low, high = found.data["gain"]["interval"]
    assert low < found.data["gain"]["points"] < high
    assert measured([row for *_, row in questions], CandidateSettings(n=1, select="vote")) is None


def test_candidates_are_no_stages_and_billed_as_one_and_a_failed_attempt_is_no_cost() -> None:
    ballot = Ballot(("ok",) * N, (0,) * N)
    row = question("1", ballot, [True] * N, chosen=True, grade="simple")
    row = replace(row, stages={**row.stages, "vote": row.final})
    record = record_with([row])
    assert [stage.name for stage in record.stages] == ["1_initial_sql", "vote"]
    assert set(record.stage_costs) == {"initial_sql", "vote", "compare_candidates"}
    assert record.stage_costs["initial_sql"].calls + record.stage_costs["initial_sql"].cached_calls == N
    records = [written("initial_sql (candidate 1)"), written("failed_attempt 2")]
    assert bills_of(records) == bills_of(records[:1])


STATUSES = ("ok", "ok", "ok", "ok", "empty", "error", "timeout", "no_answer")


def random_ballot(draw: random.Random, n: int) -> Ballot:
    statuses = tuple(draw.choice(STATUSES) for _ in range(n))
    values = [draw.randrange(3) if status == "ok" else status for status in statuses]
    first = [values.index(value) for value in values]
    failing = ("error", "timeout", "no_answer")
    return Ballot(statuses, tuple(at if s in failing else first[at] for at, s in enumerate(statuses)))


@pytest.mark.parametrize("seed", range(60))
def test_the_counted_votes_are_those_of_every_subset(seed: int) -> None:
    draw = random.Random(seed)
    n = draw.randint(1, 9)
    ballot = random_ballot(draw, n)
    right = [draw.random() < 0.4 for _ in range(n)]
    for k in range(1, n + 1):
        subsets = list(combinations(range(n), k))
        winners = [ballot.winner(subset) for subset in subsets]
        assert chosen_at_k(ballot, k) == tuple(winners.count(place) for place in range(n))
        assert majority_at_k(ballot, right, k) == pytest.approx(fmean(right[winner] for winner in winners))
        assert pass_at_k(right, k) == pytest.approx(fmean(any(right[p] for p in s) for s in subsets))


def test_sixty_four_candidates_are_counted_exactly() -> None:
    ballot = Ballot(("ok",) * 64, tuple(place % 4 for place in range(64)))
    assert sum(chosen_at_k(ballot, 32)) == comb(64, 32)
    assert majority_at_k(ballot, [place % 4 == 0 for place in range(64)], 64) == 1.0


@pytest.mark.parametrize(("statuses", "leaders", "winner"), [
    (("ok", "ok", "ok"), (0, 1, 1), 1),  # the larger group
    (("ok", "ok", "ok", "ok"), (0, 1, 1, 0), 0),  # groups of one size: the one that came first
    (("empty", "empty", "ok"), (0, 0, 2), 2),  # no rows come last
    (("error", "empty", "error"), (0, 1, 2), 1),  # SQL that fails comes behind no rows
    (("no_answer", "timeout", "error"), (0, 1, 2), 1),  # all fail: the first that has a SQL
    (("no_answer", "no_answer"), (0, 1), 0),
])  # fmt: skip
def test_the_vote_prefers(statuses: tuple[str, ...], leaders: tuple[int, ...], winner: int) -> None:
    assert Ballot(statuses, leaders).winner() == winner


def test_contenders_are_the_groups_with_a_result_in_the_votes_order() -> None:
    ballot = Ballot(("error", "ok", "empty", "ok", "ok", "empty"), (0, 1, 2, 3, 3, 2))
    assert ballot.contenders == ((3, 4), (1,), (2, 5))


def test_a_tiny_cost_of_candidates_is_not_written_as_nothing(
    questions: list[tuple[Ballot, list[bool], QuestionScore]],
) -> None:
    row = questions[0][2]
    stages = tuple(
        replace(record, calls=tuple(replace(call, cost_usd=6e-10, cached=False) for call in record.calls))
        for record in row.outcome.stages
    )
    cheap = replace(row, outcome=replace(row.outcome, stages=stages))
    assert "for <$0.0001 more per 1,000" in measured([cheap], CandidateSettings(n=N)).lines[1]
