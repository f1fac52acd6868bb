"""The condition under which a comparison fails, so that a script can stop a release."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from tasks.core.errors import ConfigurationError
from tasks.core.wording import counted
from tasks.scoring.significance import PairedTest, needed_net
from tasks.scoring.statistics.repeated import RepeatedTest
from tasks.tracking.comparison.ranking import why_not_ranked
from tasks.tracking.comparison.run_comparison import GateResult, RunComparison
from tasks.tracking.warehouse.stored import StoredRun


def gated(found: RunComparison, a: StoredRun, b: StoredRun) -> RunComparison:
    """Return the comparison with the result of its gate: it fails if run B is worse than run A.

    Without a margin, B is worse if the exact McNemar test proves it; a test of few answers proves nothing. With a
    margin, B counts as worse unless the non-inferiority test proves that it is not worse by the margin or more.

    Raises:
        ConfigurationError: the runs do not allow a decision.
    """
    test, margin = found.result, found.noninferiority
    loses = test.significant and test.difference < 0
    if why := _undecided(found, a, b) or (test.not_ranked if loses and margin is None else ""):
        raise ConfigurationError(f"The gate cannot decide: {why}")
    if margin is not None:
        return replace(found, gate=GateResult(not margin.proven, margin.verdict))
    left_out = [
        f"{counted(len(side.left_out), 'question')} that only {side.letter} scored left out"
        for side in (found.a, found.b)
        if side.left_out
    ]
    return replace(found, gate=decided(test, "exact McNemar test", loses, left_out))


def decided(
    test: PairedTest | RepeatedTest, name: str, loses: bool, left_out: Sequence[str] = ()
) -> GateResult:
    """Return the result of a gate without a margin, with what the test could prove and what was left out."""
    least = next(n for n in itertools.count(1) if needed_net(n, test.level) is not None)
    differing = f"{counted(test.differing, 'answer')} {'differs' if test.differing == 1 else 'differ'}"
    basis = (
        f"{differing}; at least {least} must for p < {test.level:g}"
        if test.differing < least
        else f"{name}, level {test.level:g}"
    )
    reason = "B is worse than A" if loses else "no loss is proven"
    return GateResult(loses, f"{reason} ({'; '.join((basis, *left_out))}).")


def _undecided(found: RunComparison, a: StoredRun, b: StoredRun) -> str:
    """Return why no test of the two runs decides, as a sentence; "" if one does."""
    if a.run.run_id == b.run.run_id:
        return f"A and B are the same run, {a.run.run_id}. Name the run of the release second."
    for side in (found.a, found.b):
        if side.status != "complete":
            return (
                f"the run {side.run_id} ({side.letter}) is {side.status}. The command that began it completes it; "
                "compare again afterwards."
            )
    return why_not_ranked(a, b)
