"""The latest run of each backbone and pipeline, ranked by its score among runs of the same questions."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from tasks.core.wording import agreeing, counted, shorten
from tasks.results.run_record import NOISE, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.letters import letters_of, pairwise_p_values
from tasks.scoring.scores import Accuracy, Score

MAX_IDS = 3


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A run with its place on a board."""

    run: RunRecord
    by: Score | None = None  # the score that the board ranks by, where it is not execution accuracy
    rank: int | None = None  # 1 for the highest score, the same for equal scores; None where it is not ranked
    why_unranked: str = ""  # why it is not, as a clause without its subject; "" where it is
    # runs of the board that share a letter do not differ significantly; "" where it is not tested
    letters: str = ""

    @property
    def ex(self) -> Accuracy | None:
        """Its execution accuracy; None if nothing was scored."""
        return self.run.accuracy if self.run.total else None

    @property
    def ranked_by(self) -> Accuracy | None:
        """The score that decides its rank; None if nothing was scored."""
        return self.by or self.ex

    @property
    def changed(self) -> str:
        """Settings that differ from the defaults, or the file of predictions that were made elsewhere; "" for none."""
        if not self.run.made_elsewhere:
            return self.run.tags.get("changed", "")
        file = self.run.settings_of("backbone")
        # with its folder and content: different systems often name it alike
        path = "/".join(PurePath(str(file.get("file", ""))).parts[-2:])
        return f"{path} (sha256 {str(file.get('sha256', ''))[:8]})"

    @property
    def details(self) -> str:
        """What distinguishes it from others of its pipeline and backbone."""
        return " · ".join(filter(None, (self.changed, self.run.tags.get("name"))))

    @property
    def name(self) -> str:
        """Pipeline, backbone and details."""
        return " · ".join(filter(None, (self.run.pipeline, self.run.backbone, self.details)))


@dataclass(frozen=True, slots=True)
class Board:
    """Runs that can be ranked against each other: the same questions and databases of one benchmark, and one rule."""

    benchmark: str
    revision: str
    rule: str
    questions: int  # how many the runs have
    of: int | None  # how many the benchmark has; None where unknown
    ranked: tuple[BoardRow, ...]  # the best first
    not_ranked: tuple[BoardRow, ...]  # the newest first
    by: str = ""  # name of the score that it ranks by; "" for execution accuracy
    # what distinguishes it from boards with the same benchmark, revision, rule and number of questions; "" if there
    # are none
    apart: str = ""

    @property
    def title(self) -> str:
        """Benchmark, revision, rule, number of questions, and what distinguishes it from similar boards."""
        part = f" of {self.of:,}" if self.of and self.of != self.questions else ""
        size = f"{self.questions:,}{part} questions" if part else counted(self.questions, "question")
        apart = f" ({self.apart})" if self.apart else ""
        by = f", ranked by {self.by}" if self.by else ""
        return f"{self.benchmark}, revision {self.revision}, rule {self.rule}, {size}{by}{apart}"

    @property
    def unscored(self) -> str:
        """How many of the questions the runs' scores leave out, and why, in a sentence; "" for none."""
        rows = (*self.ranked, *self.not_ranked)
        left_out = {self.questions - int(row.ex.total) for row in rows if row.ex}
        if not any(left_out):
            return ""
        least, most = min(left_out), max(left_out)
        numbers = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        questions = counted(self.questions, "question")
        return f"{numbers} of {questions} {agreeing('is', most)} not scored: the database or gold is missing"


def leaderboard(warehouse: Warehouse, benchmark: str | None = None, by: str = "") -> tuple[Board, ...]:
    """Return the boards, of one benchmark or of all, by benchmark, those with more questions first.

    Of each backbone, pipeline, and set of changed settings or file of predictions, a board has the latest run that may
    be ranked, and the latest that may not: it was not finished, has questions that a re-run can answer, saw the gold,
    was re-rolled, or was scored against translated gold. Repeats that measure noise are on no board.

    With `by`, the name of another score of the runs, such as that of an answer key, runs without that score are not
    ranked, and neither are runs whose score counts other questions or has another key than the newest run's.
    """
    groups: dict[tuple[Any, ...], list[RunRecord]] = {}
    for run in warehouse.finished_runs():
        if benchmark in (None, run.benchmark) and NOISE not in run.tags:
            databases = tuple(sorted(run.databases.items()))
            key = (run.benchmark, run.revision, run.rule, run.question_set, databases)
            groups.setdefault(key, []).append(run)
    boards_with_newest_run = [(_board(runs, warehouse, by), runs[0]) for runs in groups.values()]
    boards = _distinguish(boards_with_newest_run, warehouse)
    return tuple(
        sorted(boards, key=lambda board: (board.benchmark, -board.questions, board.revision, board.rule))
    )


def _distinguish(boards: Sequence[tuple[Board, RunRecord]], warehouse: Warehouse) -> list[Board]:
    """Add to boards with the same title what distinguishes them: question file, questions or databases."""
    alike: dict[str, list[RunRecord]] = {}
    for board, run in boards:
        alike.setdefault(board.title, []).append(run)
    distinguished = []
    for board, run in boards:
        others = [other for other in alike[board.title] if other is not run]
        parts = []
        if any(other.question_sha256 != run.question_sha256 for other in others):
            parts.append(f"{run.question_file.rpartition('/')[2]}, sha256 {run.question_sha256[:8]}")
        elif any(other.question_set != run.question_set for other in others):
            ids = shorten(warehouse.question_ids(run.run_id), MAX_IDS)
            parts.append(f"questions {ids or 'removed'}, selection {run.question_set[:8]}")
        if any(other.databases != run.databases for other in others):
            digest = hashlib.sha256(repr(sorted(run.databases.items())).encode()).hexdigest()
            parts.append(f"databases {digest[:8]}")
        distinguished.append(replace(board, apart="; ".join(parts)))
    return distinguished


def _board(newest_first: Sequence[RunRecord], warehouse: Warehouse, by: str) -> Board:
    """Return the board of runs of one benchmark, rule and set of questions; `by`: the score that ranks them."""
    of_runs = [BoardRow(run, run.scores.get(by), why_unranked=_why_unranked(run, by)) for run in newest_first]
    rows = _unrank_other_golds(of_runs, by)
    ranked = sorted(_latest(row for row in rows if not row.why_unranked), key=_sort_key)
    scores = [_score(row) for row in ranked]  # the first one of a score gives its rank: equal scores share it
    run = newest_first[0]
    letters = _letters(ranked, run.rule, by, warehouse)  # runs that share one have no proven difference
    return Board(
        benchmark=run.benchmark,
        revision=run.revision,
        rule=run.rule,
        questions=run.questions or 0,
        of=run.questions_in_benchmark,
        ranked=tuple(
            replace(row, rank=1 + scores.index(_score(row)), letters=letters.get(row.run.run_id, ""))
            for row in ranked
        ),
        not_ranked=tuple(_latest(row for row in rows if row.why_unranked)),
        by=by,
    )


def _basis(run: RunRecord, by: str) -> object:
    """Return what a score depends on beside the answers: the answer key, and the questions that are not counted."""
    score = run.scores.get(by)
    if score is None:
        return None
    left_out = (score.differs.withdrawn, score.differs.other_text, score.differs.absent)
    return run.keys.get(score.variant), *map(tuple, left_out)


def _unrank_other_golds(rows: Sequence[BoardRow], by: str) -> list[BoardRow]:
    """Return the rows, unranked where a run was scored by another key or on other questions than the newest ranked."""
    newest = next((_basis(row.run, by) for row in rows if not row.why_unranked), None)
    other = "was scored by another answer key of this name, or on other questions"
    return [
        row if row.why_unranked or _basis(row.run, by) == newest else replace(row, why_unranked=other)
        for row in rows
    ]


def _letters(ranked: Sequence[BoardRow], rule: str, by: str, warehouse: Warehouse) -> dict[str, str]:
    """Return letters by run id, shared by runs without a proven difference; {} where there is nothing to test."""
    if len(ranked) < 2:
        return {}
    run_ids = [row.run.run_id for row in ranked]
    score = ranked[0].by
    if score is None or not score.variant:
        right = warehouse.right_answers(run_ids, by or rule)
    elif score.variant == by:
        right = warehouse.right_answers(run_ids, rule, by)
    else:  # ranked by a variant under another rule than the headline rule: the warehouse has no such answers
        return {}
    return letters_of([run_id for run_id in run_ids if run_id in right], pairwise_p_values(right))


def _latest(newest_first: Iterable[BoardRow]) -> list[BoardRow]:
    latest: dict[tuple[str, str, str], BoardRow] = {}
    for row in newest_first:
        latest.setdefault((row.run.backbone, row.run.pipeline, row.changed), row)
    return list(latest.values())


def _sort_key(row: BoardRow) -> tuple[float, float]:
    """Return the order on a board: by score, and of equal scores the cheapest from scratch first."""
    usd = row.run.cost.from_scratch_usd
    return -_score(row), float("inf") if usd is None else usd


def _score(row: BoardRow) -> float:
    return (row.ranked_by.ex or 0.0) if row.ranked_by else 0.0


def _why_unranked(run: RunRecord, by: str) -> str:
    """Return why a run is not ranked, as a clause; "" if it is. `by` names a score; "" for execution accuracy."""
    if why := run.why_unranked:
        return why
    if retryable := run.retryable:
        return f"has {counted(retryable, 'question')} without an answer that a re-run can give"
    if run.status != "complete":
        return f"is {run.status}"
    if by and by not in run.scores:
        return f"has no score {by}"
    return "" if (run.scores[by].total if by else run.total) else "has nothing to score"
