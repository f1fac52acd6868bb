"""Self-consistency: of several SQLs, the one whose result most of them return (DAC's released code). No model call."""

from tasks.database.sandbox.runner import DatabaseRunner
from tasks.sql.parsing import normalise_sql
from tasks.stage_runs.stage import stage


@stage()
async def consistent_sql(candidates: tuple[str, ...], runner: DatabaseRunner) -> str | None:
    """Return the SQL whose set of rows most of the candidates return, the first of them, ties in their order.

    One that fails to execute has no vote. If all fail, the first is returned; without candidates, None.
    """
    votes: dict[str, int] = {}
    written = [(normalise_sql(sql, runner.database.schema.dialect), sql) for sql in candidates]
    known: dict[str, str | None] = {}
    for normal, sql in written:
        if normal not in known:
            known[normal] = await _agreeing(sql, votes, runner)
        if (leader := known[normal]) is not None:
            votes[leader] = votes.get(leader, 0) + 1
    return max(votes, key=lambda sql: votes[sql]) if votes else next(iter(candidates), None)


async def _agreeing(sql: str, votes: dict[str, int], runner: DatabaseRunner) -> str | None:
    """Return the earlier SQL with the same rows, else the SQL itself; None where it fails to execute."""
    for other in votes:
        if await runner.agree(other, sql):
            return other
    return sql if (await runner.run(sql, 0)).ok else None
