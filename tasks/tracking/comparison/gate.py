"""The condition under which a comparison fails, so that a script can stop a release."""

from dataclasses import replace

from tasks.core.errors import ConfigurationError
from tasks.tracking.comparison.ranking import why_not_ranked
from tasks.tracking.comparison.run_comparison import GateResult, RunComparison
from tasks.tracking.warehouse.stored import StoredRun


def gated(found: RunComparison, a: StoredRun, b: StoredRun) -> RunComparison:
    """Return the comparison with the result of its gate: it fails if run B is worse than run A.

    Without a margin, B is worse if the exact McNemar test proves it. With a margin, B counts as worse unless the
    non-inferiority test proves that it is not worse by the margin or more.

    Raises:
        ConfigurationError: the runs do not allow a decision.
    """
    test, margin = found.result, found.noninferiority
    loses = test.significant and test.difference < 0
    if why := _undecided(found, a, b) or (test.not_ranked if loses and margin is None else ""):
        raise ConfigurationError(f"The gate cannot decide: {why}")
    if margin is not None:
        return replace(found, gate=GateResult(not margin.proven, margin.verdict))
    reason = "B is worse than A" if loses else "B is not proven to be worse than A"
    return replace(found, gate=GateResult(loses, f"{reason} (exact McNemar test, level {test.level:g})."))


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
