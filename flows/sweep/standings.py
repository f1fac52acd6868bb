"""How the cells of a sweep stand to each other, by exact McNemar tests paired by question."""

from collections.abc import Mapping, Sequence

from flows.sweep.result import CellResult, Standings
from tasks.core.wording import counted
from tasks.core.wording import p_value as in_words
from tasks.scoring.report import Report, is_right
from tasks.scoring.significance import LEVEL, compare_runs, holm
from tasks.scoring.statistics.letters import letters_of

Right = Mapping[str, Mapping[str, bool]]
"""By cell and question, whether the answer is right."""


def standings(cells: Sequence[CellResult]) -> Standings:
    """Compare each cell with the best one, and all of them with each other.

    P-values are adjusted for their number (Holm): those against the best, and those of all pairs. Cells that were not
    evaluated in full are left out. Those that used the gold SQL, those without a scored question, those that share none
    with the best, and those that are lower only by questions without an answer after retryable failures are not
    ranked.
    """
    unranked = {done.cell.name: f"not ranked: {why}" for done in cells if (why := done.cell.unranked)}
    right = {
        done.cell.name: _right(done.evaluated.report)
        for done in cells
        if done.evaluated and not done.problem and not done.cell.unranked
    }
    unranked |= {name: "not ranked: no question is scored" for name, found in right.items() if not found}
    scored = {name: found for name, found in right.items() if found}
    if len(scored) < 2:
        return Standings(unranked)
    best = max(scored, key=lambda name: sum(scored[name].values()))
    apart = [name for name, found in scored.items() if not found.keys() & scored[best].keys()]
    unranked |= dict.fromkeys(apart, "not ranked: it shares no scored question with the best")
    ranked = {name: found for name, found in scored.items() if name not in apart}
    if len(ranked) < 2:
        return Standings(unranked)
    unanswered = {
        done.cell.name: {row.question.id for row in done.evaluated.report.rows if row.outcome.retryable}
        for done in cells
        if done.evaluated
    }
    against_best = unranked | _against(best, ranked, unanswered)
    left = {name: found for name, found in ranked.items() if "not ranked" not in against_best[name]}
    equal = tuple(name for name, found in left.items() if _counts(found) == _counts(ranked[best]))
    return Standings(against_best, equal, letters_of(left) if len(left) > 1 else {})


def _against(best: str, ranked: Right, unanswered: Mapping[str, set[str]]) -> dict[str, str]:
    """Compare cells with the best one, in words."""
    others = [name for name in ranked if name != best]
    tests = [compare_runs(ranked[name], ranked[best]) for name in others]
    adjusted = holm([each.p_value for each in tests])
    close = sum(p_value >= LEVEL for p_value in adjusted)
    found = {best: f"best; {close:,} of {counted(len(others), 'other')} statistically tied"}
    for name, test, p_value in zip(others, tests, adjusted, strict=True):
        if p_value >= LEVEL:
            found[name] = f"statistically tied, p = {in_words(p_value)}"
        elif test.stands_without(unanswered[name]):
            found[name] = f"lower, p = {in_words(p_value)}"
        else:
            found[name] = f"not ranked: {counted(len(unanswered[name]), 'question')} without an answer"
    return found


def _counts(found: Mapping[str, bool]) -> tuple[int, int]:
    """Return the number of right answers, and of questions."""
    return sum(found.values()), len(found)


def _right(report: Report) -> dict[str, bool]:
    rows = (row for row in report.rows if row.executable)
    return {row.question.id: is_right(row.final, report.rule) for row in rows}
