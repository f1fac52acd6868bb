"""The latest run of each backbone and pipeline, ranked by its score among runs of the same questions."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.scoring.report import Cost, Ratio
from tasks.scoring.significance import CONFIDENCE, wilson
from tasks.tracking.warehouse.runs import StoredRun, Warehouse
from tasks.wording import counted


@dataclass(frozen=True, slots=True)
class Standing:
    """One run on a board.

    Attributes:
        run_id: the run.
        backbone, pipeline: their names.
        changed: settings that differ from the defaults of these names, `key=value, ...`; "" for none.
        label: what the user wrote on the run, "" for nothing.
        started: when, with time zone.
        ex: its execution accuracy; None where nothing was scored.
        ex_corrected: on corrected golds; None where it was given none.
        candidates: candidates per question; None without.
        passed: pass@k for all of them, the share of questions of which one candidate is right; None without.
        cost: calls, tokens and money of the run; None for what is unknown.
        rank: 1 for the highest score, the same for equal scores; None where it is not ranked.
        why_unranked: why it is not, as a clause without its subject; "" where it is.
    """

    run_id: str
    backbone: str
    pipeline: str
    changed: str
    label: str
    started: datetime.datetime
    ex: Ratio | None
    cost: Cost
    ex_corrected: Ratio | None = None
    candidates: int | None = None
    passed: Ratio | None = None
    rank: int | None = None
    why_unranked: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval of the score, as shares; None without one."""
        return wilson(self.ex.correct, self.ex.total) if self.ex and self.ex.total else None


@dataclass(frozen=True, slots=True)
class Board:
    """Runs that can be ranked against each other: the same questions of one benchmark, scored by one rule.

    Attributes:
        benchmark, revision, rule: of the runs.
        questions: how many were asked.
        of: how many the benchmark has; None where unknown.
        ranked: the best first.
        not_ranked: the newest first.
    """

    benchmark: str
    revision: str
    rule: str
    questions: int
    of: int | None
    ranked: tuple[Standing, ...]
    not_ranked: tuple[Standing, ...]

    @property
    def title(self) -> str:
        """Benchmark, revision, rule, and how many of its questions."""
        part = f" of {self.of:,}" if self.of and self.of != self.questions else ""
        return f"{self.benchmark}, revision {self.revision}, rule {self.rule}, {self.questions:,}{part} questions"

    @property
    def unscored(self) -> str:
        """How many of the questions the runs' scores leave out, and why, in a sentence; "" for none."""
        left_out = sorted(
            {self.questions - int(each.ex.total) for each in (*self.ranked, *self.not_ranked) if each.ex}
        )
        if not any(left_out):
            return ""
        some = " to ".join(f"{number:,}" for number in dict.fromkeys((left_out[0], left_out[-1])))
        return f"{some} of {self.questions:,} questions are not scored: their database or gold is missing"


def leaderboard(warehouse: Warehouse, benchmark: str | None = None) -> tuple[Board, ...]:
    """Return the boards, of one benchmark or of all, by benchmark, those with more questions first.

    Of each backbone, pipeline and set of changed settings, a board has the latest run that may be ranked, and the
    latest that may not: it was not finished, has questions that can be asked again, saw the gold, was re-rolled, or was
    scored against translated gold.
    """
    runs = [
        stored
        for stored in warehouse.finished_runs()
        if benchmark in (None, stored.run.benchmark) and stored.summary
    ]
    asked = {run.run_id: run.asked for run in warehouse.runs()}
    groups: dict[tuple[Any, ...], list[StoredRun]] = {}
    for stored in runs:
        run = stored.run
        key = (run.benchmark, run.revision, run.rule, asked.get(run.run_id, run.run_id))
        groups.setdefault(key, []).append(stored)
    boards = [_board(members) for members in groups.values()]
    return tuple(
        sorted(boards, key=lambda board: (board.benchmark, -board.questions, board.revision, board.rule))
    )


def _board(newest_first: Sequence[StoredRun]) -> Board:
    standings = [_standing(stored) for stored in newest_first]
    ranked = sorted(
        _latest(each for each in standings if not each.why_unranked), key=lambda each: -_score(each)
    )
    scores = [_score(each) for each in ranked]
    run = newest_first[0].run
    return Board(
        run.benchmark,
        run.revision,
        run.rule,
        int(newest_first[0].summary.get("questions") or 0),
        run.questions_in_benchmark,
        tuple(replace(each, rank=1 + scores.index(_score(each))) for each in ranked),
        tuple(_latest(each for each in standings if each.why_unranked)),
    )


def _latest(newest_first: Iterable[Standing]) -> list[Standing]:
    """Return the first of each backbone, pipeline and changed settings."""
    found: dict[tuple[str, str, str], Standing] = {}
    for each in newest_first:
        found.setdefault((each.backbone, each.pipeline, each.changed), each)
    return list(found.values())


def _score(standing: Standing) -> float:
    return (standing.ex.value or 0.0) if standing.ex else 0.0


def _standing(stored: StoredRun) -> Standing:
    run, summary = stored.run, stored.summary
    ex, tokens = summary.get("ex"), summary.get("tokens") or {}
    candidates = summary.get("candidates") or {}
    return Standing(
        run.run_id,
        run.backbone,
        run.pipeline,
        run.tags.get("changed", ""),
        run.tags.get("name", ""),
        run.started,
        _ratio(ex),
        Cost(
            calls=summary.get("calls"),
            cached_calls=summary.get("cached_calls"),
            input_tokens=tokens.get("input"),
            output_tokens=tokens.get("output"),
            cost_usd=summary.get("cost_usd"),
        ),
        _ratio(summary.get("ex_corrected")),
        candidates.get("n"),
        _ratio(candidates.get(f"pass@{candidates.get('n')}")),
        why_unranked=_why_unranked(stored),
    )


def _ratio(share: Mapping[str, Any] | None) -> Ratio | None:
    return Ratio(share["correct"], share["total"]) if share and share.get("total") else None


def _why_unranked(stored: StoredRun) -> str:
    summary = stored.summary
    if why := stored.run.why_unranked:
        return why
    if mendable := summary.get("mendable"):
        return f"has {counted(mendable, 'question')} without an answer that can be asked again"
    if stored.status != "complete":
        return f"is {stored.status}"
    return "" if (summary.get("ex") or {}).get("total") else "has nothing to score"


def as_object(boards: Sequence[Board]) -> dict[str, Any]:
    """Return the boards as plain JSON; null for what is unknown."""
    return {
        "boards": [
            {
                "benchmark": board.benchmark,
                "revision": board.revision,
                "rule": board.rule,
                "questions": board.questions,
                "of": board.of,
                "ranked": [_as_object(each) for each in board.ranked],
                "not_ranked": [_as_object(each) for each in board.not_ranked],
            }
            for board in boards
        ]
    }


def _as_object(standing: Standing) -> dict[str, Any]:
    low, high = standing.interval or (None, None)
    ex = standing.ex
    return {
        "rank": standing.rank,
        "run_id": standing.run_id,
        "backbone": standing.backbone,
        "pipeline": standing.pipeline,
        "changed": standing.changed or None,
        "name": standing.label or None,
        "started": standing.started.isoformat(timespec="seconds"),
        "ex": ex and ex.as_object() | {"low": low, "high": high, "confidence": CONFIDENCE},
        "ex_corrected": standing.ex_corrected and standing.ex_corrected.as_object(),
        "candidates": standing.candidates,
        "pass_at_k": standing.passed and standing.passed.as_object(),
        **standing.cost.as_object(),
        "why_unranked": standing.why_unranked or None,
    }
