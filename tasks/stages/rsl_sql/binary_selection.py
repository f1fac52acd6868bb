"""Binary selection between SQL1 and SQL2, by what they return (RSL-SQL, section 3.3)."""

from collections.abc import Sequence
from typing import Literal

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import Answer, Execution, FewShotQuestion, Selection, SqlPair
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_view import SchemaView
from tasks.settings.stages import SelectionSettings
from tasks.sql.parsing import normalise_sql, same_query
from tasks.stage_runs.stage import stage
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages
from tasks.stages.shown_results import ExecutedSql, show_result


@stage(version=3, prompts=("binary_selection",))
async def binary_selection(
    few_shot: FewShotQuestion,
    view: SchemaView,
    candidates: SqlPair,
    settings: SelectionSettings,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Selection:
    """Execute both candidates, each within the benchmark's time limit, and ask which is better.

    By default, two candidates that are the same query need no call. In the authors' recorded run on BIRD dev they are
    the same for 697 of 1,534 questions; the call wrote another query for 3 of these and made none right.

    Returns:
        The chosen SQL. A missing candidate leaves the other; an unreadable reply leaves SQL2, and so do two choices
        that differ with the order of the queries (`both_orders`).
    """
    sql1, sql2 = candidates.sql1, candidates.sql2
    if sql1 is None or sql2 is None:
        backbone.note(f"{_missing(candidates)}: nothing to select from")
        backbone.fall_back("there was nothing to select from")
        return Selection(sql2 or sql1, "second" if sql2 else "first", "default")
    if settings.shortcut != "none" and same_query(sql1, sql2, view.dialect):
        return Selection(sql2, "same", "shortcut")
    first = await runner.run(sql1, settings.rows_shown)
    second = await runner.run(sql2, settings.rows_shown)
    if settings.shortcut == "result" and (decided := await _shortcut(sql1, first, sql2, second, runner)):
        return Selection(sql2, decided, "shortcut")
    shown = [
        ExecutedSql(sql, show_result(result, settings.rows_shown, counts=settings.counts))
        for sql, result in ((sql1, first), (sql2, second))
    ]

    async def asked(queries: Sequence[ExecutedSql]) -> Answer:
        messages = schema_messages(
            "binary_selection",
            view,
            question=few_shot.question,
            demonstrations=few_shot.demonstrations,
            candidates=list(queries),
        )
        reply = await backbone.ask_json(messages, SqlReply)
        return sql_answer(reply, backbone, otherwise="SQL2 was kept")

    answer = await asked(shown)
    if answer.sql is None:
        backbone.note(f"{answer.note}; SQL2 was kept")
        return Selection(sql2, "second", "default")
    choice = _choice(answer.sql, candidates, view.dialect)
    if settings.both_orders and choice != "same" and not await runner.agree(sql1, sql2):
        other = await asked(shown[::-1])
        if other.sql is None or _choice(other.sql, candidates, view.dialect) != choice:
            backbone.note("selection depends on the order of the queries; SQL2 was kept")
            return Selection(sql2, "second", "default")
    return Selection(answer.sql, choice, "backbone")


def _missing(candidates: SqlPair) -> str:
    missing = [name for name, sql in (("SQL1", candidates.sql1), ("SQL2", candidates.sql2)) if sql is None]
    return f"{' and '.join(missing)} missing"


async def _shortcut(
    sql1: str, first: Execution, sql2: str, second: Execution, runner: DatabaseRunner
) -> Literal["same", "second"] | None:
    """Decide for SQL2 where the results leave no doubt (acl): equal and non-empty, or SQL1 fails and SQL2 works."""
    if not first.ok:
        return "second" if second.ok else None
    if first.empty or not second.ok:
        return None
    return "same" if await runner.agree(sql1, sql2) else None


def _choice(sql: str, candidates: SqlPair, dialect: str) -> Literal["first", "second", "same", "new"]:
    chosen, first, second = (
        normalise_sql(text or "", dialect) for text in (sql, candidates.sql1, candidates.sql2)
    )
    if first == second == chosen:
        return "same"
    return "first" if chosen == first else "second" if chosen == second else "new"
