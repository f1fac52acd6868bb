"""Candidates: several answers of a pipeline to one question; their names, and what they cost."""

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.core.outcome import FAILED_ATTEMPT, TURN, StageRecord, split_label
from tasks.scoring.cost import total as total_of

STEP = "candidate_"
"""Begins the names of the candidates' SQL beside those of a pipeline's steps: "candidate_1" and so on."""

COMPARING = "compare_candidates"
"""Stage that compares two candidates, up to thousands of times per question."""


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
    """Return the name under which the calls of a stage are added up: that of its label without candidate or turn.

    >>> bill_line("self_correction 2 (candidate 3)"), bill_line("compare_candidates 7"), bill_line("turn 12")
    ('self_correction 2', 'compare_candidates', 'turn')
    """
    if label.startswith(COMPARING):
        return COMPARING
    stage, _ = split_label(label)
    return TURN if stage.startswith(f"{TURN} ") else stage


UNITS = ("usd", "tokens", "calls")
"""Units of what candidates cost, the most telling first."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Calls, their tokens (input and output) and their price, the cached ones as if they were paid; None: unknown."""

    calls: int = 0
    tokens: int | None = 0
    usd: float | None = 0.0

    def __add__(self, other: "Bill") -> "Bill":
        tokens = total_of([self.tokens, other.tokens])
        return Bill(self.calls + other.calls, tokens, total_of([self.usd, other.usd]))


def bills_of(records: Iterable[StageRecord]) -> tuple[Bill, Bill]:
    """Return the bills of writing a question's candidates and of selecting one, without replaced failed attempts."""
    writing, selecting = Bill(), Bill()
    for record in records:
        if record.stage == FAILED_ATTEMPT:
            continue
        _, candidate = split_label(record.label)
        for call in record.rounds:
            tokens = total_of([call.usage.input, call.usage.output])
            bill = Bill(calls=1, tokens=tokens, usd=call.uncached_cost_usd)
            if candidate is None:  # a stage that belongs to no candidate compares or selects them
                selecting += bill
            else:
                writing += bill
    return writing, selecting
