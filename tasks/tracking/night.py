"""What a night found: one entry per evaluation, and whether any of it is a reason to wake somebody."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tasks.scoring.report import Ratio
from tasks.scoring.significance import Comparison, holm
from tasks.settings.night import Gate

Standing = Literal["regression", "infrastructure", "better", "no worse", "no baseline"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One evaluation of a night.

    Attributes:
        benchmark, backbone, pipeline: their names.
        problem: why infrastructure failed, "" where it did not.
        continue_with: command that asks again what was not answered, "" where all was.
        run_id: of the run; None where none came to be.
        ex: its execution accuracy; None likewise.
        unanswered: questions without an answer for reasons that a re-run can mend.
        calls: paid calls; None likewise.
        cost_usd: of these; None where unknown.
        seconds: how long it took.
        baseline: the run it is compared with; None where there is none.
        comparison: with the baseline as A; None likewise.
    """

    benchmark: str
    backbone: str
    pipeline: str
    problem: str = ""
    continue_with: str = ""
    run_id: str | None = None
    ex: Ratio | None = None
    unanswered: int = 0
    calls: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None
    baseline: str | None = None
    comparison: Comparison | None = None

    @property
    def name(self) -> str:
        """Name in messages, and of the baseline in the parameters."""
        return f"{self.benchmark} | {self.backbone} | {self.pipeline}"


@dataclass(frozen=True, slots=True)
class Judged:
    """An entry, and what is to be thought of it.

    Attributes:
        entry: what was found.
        standing: how it stands.
        p_value: of the comparison, adjusted for the number of comparisons of the night; None where there is none.
    """

    entry: Entry
    standing: Standing
    p_value: float | None


@dataclass(frozen=True, slots=True)
class Night:
    """What a night found.

    Attributes:
        name: of the night.
        gate: when it fails.
        entries: in the order of the matrix.
    """

    name: str
    gate: Gate
    entries: tuple[Judged, ...]

    @property
    def red(self) -> tuple[Judged, ...]:
        """The entries for which the night fails."""
        return tuple(each for each in self.entries if each.standing in ("regression", "infrastructure"))

    @property
    def verdict(self) -> str:
        """One sentence."""
        regressions = [each.entry.name for each in self.red if each.standing == "regression"]
        failures = [each.entry.name for each in self.red if each.standing == "infrastructure"]
        parts = [
            *([f"significantly worse than its baseline: {'; '.join(regressions)}"] if regressions else []),
            *([f"infrastructure failed: {'; '.join(failures)}"] if failures else []),
        ]
        count = len(self.entries)
        evaluations = f"{count} evaluation{'' if count == 1 else 's'}"
        return f"{evaluations}, {' and '.join(parts) or 'none significantly worse than its baseline'}."


def judge(name: str, gate: Gate, entries: Sequence[Entry]) -> Night:
    """Say of every entry how it stands; p-values are adjusted, for a matrix is many chances to be unlucky."""
    compared = [entry.comparison for entry in entries if entry.comparison]
    adjusted = iter(holm([comparison.p_value for comparison in compared]))
    judged = []
    for entry in entries:
        p_value = next(adjusted) if entry.comparison else None
        judged.append(Judged(entry, _standing(entry, p_value, gate), p_value))
    return Night(name, gate, tuple(judged))


def _standing(entry: Entry, p_value: float | None, gate: Gate) -> Standing:
    # A regression of what was answered is one, whatever else is wrong.
    if entry.comparison is not None and p_value is not None and p_value < gate.level:
        points = 100 * entry.comparison.difference
        if points < 0 and -points >= gate.threshold:
            return "regression"
        if points > 0 and not entry.problem:
            return "better"
    if entry.problem:
        return "infrastructure"
    return "no worse" if entry.comparison else "no baseline"


def as_object(night: Night) -> dict[str, Any]:
    """Return a night as plain JSON; null is what is not known or does not apply."""
    return {
        "night": night.name,
        "green": not night.red,
        "verdict": night.verdict,
        "gate": night.gate.model_dump(mode="json"),
        "evaluations": [_entry(each) for each in night.entries],
    }


def _entry(judged: Judged) -> dict[str, Any]:
    entry, found = judged.entry, judged.entry.comparison
    return {
        "benchmark": entry.benchmark,
        "backbone": entry.backbone,
        "pipeline": entry.pipeline,
        "standing": judged.standing,
        "problem": entry.problem or None,
        "continue_with": entry.continue_with or None,
        "run_id": entry.run_id,
        "ex": entry.ex and {"correct": entry.ex.correct, "total": entry.ex.total, "value": entry.ex.value},
        "unanswered": entry.unanswered,
        "calls": entry.calls,
        "cost_usd": entry.cost_usd,
        "seconds": entry.seconds,
        "baseline": entry.baseline,
        "difference": found and found.difference,
        "questions_compared": found and found.questions,
        "fixed": found and list(found.fixed),
        "broken": found and list(found.broken),
        "p_value": found and found.p_value,
        "adjusted_p": judged.p_value,
    }
