"""Vote of the candidates: those with equal results, under the benchmark's rule. No model call, and no gold."""

from tasks.database.sandbox.runner import DatabaseRunner
from tasks.scoring.candidates import Ballot
from tasks.scoring.execution.result_groups import group_by_result
from tasks.stage_runs.stage import stage


@stage()
async def vote(candidates: tuple[str | None, ...], rule: str, runner: DatabaseRunner) -> Ballot:
    """Run every candidate and group those with equal results; `Ballot.winner` is the vote's choice.

    Self-consistency over results (Wang et al., arXiv 2203.11171), as CHASE-SQL and CSC-SQL use it as a baseline.
    """
    return await group_by_result(candidates, rule, runner)
