"""Candidates: several answers of a pipeline to one question; their names, their results, and the vote."""

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.core.trajectory import TURN
from tasks.stage_runs.question_run import split_label

STEP = "candidate_"
"""Begins the names of the candidates' SQL beside those of a pipeline's steps: "candidate_1" and so on."""

COMPARING = "compare_candidates"
"""Stage that compares two candidates, up to thousands of times per question."""

VOTING = 3
"""Class of the candidates whose votes are counted: those that return rows."""

_CLASSES = {"no_answer": 0, "error": 1, "timeout": 1, "too_large": 1, "empty": 2, "ok": VOTING}


def step_of(number: int) -> str:
    """Return the name of a candidate's SQL beside a pipeline's steps.

    >>> step_of(3), is_candidate("candidate_3"), is_candidate("1_initial_sql")
    ('candidate_3', True, False)
    """
    return f"{STEP}{number}"


def is_candidate(step: str) -> bool:
    """Return whether a step is a candidate's SQL, not one of the pipeline's own steps."""
    return step.removeprefix(STEP).isdigit() and step.startswith(STEP)


def bill_line(label: str) -> str:
    """Return under which name a stage's calls are billed: all candidates, all comparisons, and all turns, together.

    >>> bill_line("self_correction 2 (candidate 3)"), bill_line("compare_candidates 7"), bill_line("turn 12")
    ('self_correction 2', 'compare_candidates', 'turn')
    """
    if label.startswith(COMPARING):
        return COMPARING
    line = split_label(label)[0]
    return TURN if line.startswith(f"{TURN} ") else line


@dataclass(frozen=True, slots=True)
class Ballot:
    """The results of the candidates of one question, and which of them are equal."""

    # per candidate "ok", "empty", "error", "timeout", "too_large", or "no_answer" without a SQL
    statuses: tuple[str, ...]
    # per candidate the place, from 0, of the first candidate with an equal result; its own where it is the first, or
    # where its SQL has no result
    leaders: tuple[int, ...]

    @property
    def classes(self) -> tuple[int, ...]:
        """Rank of each candidate's status: rows before no rows, no rows before a failing SQL, that before none."""
        return tuple(_CLASSES[status] for status in self.statuses)

    def winner(self, among: Iterable[int] | None = None) -> int:
        """Return the place of the candidate that the vote chooses, of some candidates; None: of all.

        The largest group of equal results wins. Groups of one size: the one whose first candidate came first. Results
        without rows come behind all others, SQL that fails behind these, however many they are. Of the chosen group
        the first candidate is taken.
        """
        places = range(len(self.leaders)) if among is None else tuple(among)
        classes = self.classes
        sizes = dict.fromkeys(self.leaders, 0)
        for place in places:
            sizes[self.leaders[place]] += classes[place] == VOTING
        return max(places, key=lambda place: (classes[place], sizes[self.leaders[place]], -place))

    @property
    def contenders(self) -> tuple[tuple[int, ...], ...]:
        """Places of candidates with equal results, the group that the vote prefers first; without SQL that fails."""
        groups: dict[int, list[int]] = {}
        for place, leader in enumerate(self.leaders):
            if self.statuses[place] in ("ok", "empty"):
                groups.setdefault(leader, []).append(place)
        left = [place for group in groups.values() for place in group]
        ranked = []
        while left:
            group = groups[self.leaders[self.winner(left)]]
            ranked.append(tuple(group))
            left = [place for place in left if place not in group]
        return tuple(ranked)
