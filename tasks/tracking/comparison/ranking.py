"""Whether the better one of two runs may be called so."""

from collections.abc import Iterable
from dataclasses import replace

from tasks.core.wording import counted
from tasks.scoring.report import QuestionScore
from tasks.scoring.significance import PairedTest
from tasks.tracking.warehouse.stored import StoredRun


def why_not_ranked(a: StoredRun, b: StoredRun) -> str:
    """Return why two runs must not be ranked, independent of the test; "" if they may be."""
    letters: dict[str, list[str]] = {}
    for letter, stored in (("A", a), ("B", b)):
        if why := stored.run.why_unranked:
            letters.setdefault(why, []).append(letter)
    if not letters:
        return ""
    found = " and ".join(f"{' and '.join(those)} {why}" for why, those in letters.items())
    return f"{found}, so no run wins."


def ranked(
    result: PairedTest, why_not: str, rows: Iterable[tuple[QuestionScore, QuestionScore]]
) -> PairedTest:
    """Return the test with the reason why no run is better, where there is one.

    It is `why_not`, or that the result depends on questions to which the run that is not better has no answer after
    retryable failures.

    Args:
        result: the test of B against A.
        why_not: why the runs must not be ranked, as `why_not_ranked` says it; "" if they may be.
        rows: its questions in A and in B.
    """
    if why_not or result.better is None:
        return replace(result, not_ranked=why_not)
    letter, side = ("A", 0) if result.better == "B" else ("B", 1)
    unanswered = {pair[side].question.id for pair in rows if pair[side].outcome.retryable}
    if result.stands_without(unanswered):
        return result
    return replace(
        result,
        not_ranked=f"{letter} has no answer to {counted(len(unanswered), 'question')} because of retryable failures, "
        "and with right answers to them it might not be worse, so no run wins.",
    )
