"""Binary selection between SQL1 and SQL2, by what they return (RSL-SQL, section 3.3; spec 3)."""

from typing import Literal

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema
from tasks.records import Demonstration, Execution, Question, Selection
from tasks.settings.pipeline import PromptSettings, SelectionSettings
from tasks.sql.normalise import normalise_sql
from tasks.stage import stage
from tasks.stages.ask_sql import ask_sql
from tasks.stages.show import Tried, show_result, show_schema


@stage(prompts=("binary_selection",))
async def binary_selection(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    demonstrations: tuple[Demonstration, ...],
    sql1: str | None,
    sql2: str | None,
    settings: SelectionSettings,
    descriptions: bool,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Selection:
    """Run both candidates and let the backbone choose.

    Args:
        question: the question and its evidence.
        schema: the schema reduced to the link.
        prompt: how the schema is shown.
        demonstrations: training questions with their SQL, most similar first.
        sql1: the preliminary SQL.
        sql2: the augmented SQL.
        settings: rows shown, counts, shortcuts.
        descriptions: show column descriptions.
        runner: executes the candidates, each within the benchmark's time limit.
        backbone: who is asked.

    Returns:
        The chosen SQL. A missing candidate leaves the other; an unreadable reply leaves SQL2.
    """
    if sql1 is None or sql2 is None:
        backbone.note(f"{_missing(sql1, sql2)}: nothing to select from")
        return Selection(sql2 or sql1, "second" if sql2 else "first", "default")
    first = await runner.run(sql1, settings.rows_shown)
    second = await runner.run(sql2, settings.rows_shown)
    if settings.shortcut and (decided := await _shortcut(sql1, first, sql2, second, runner)):
        return Selection(sql2, decided, "shortcut")
    answer = await ask_sql(
        backbone,
        prompts.messages(
            "binary_selection",
            question=question,
            dialect=schema.dialect_name,
            demonstrations=demonstrations,
            parts=show_schema(schema, prompt, descriptions=descriptions),
            candidates=[
                Tried(sql1, show_result(first, settings.rows_shown, counts=settings.counts)),
                Tried(sql2, show_result(second, settings.rows_shown, counts=settings.counts)),
            ],
        ),
    )
    if answer.sql is None:
        backbone.note(f"{answer.note}; SQL2 was kept")
        return Selection(sql2, "second", "default")
    return Selection(answer.sql, _choice(answer.sql, sql1, sql2), "backbone")


def _missing(sql1: str | None, sql2: str | None) -> str:
    missing = [name for name, sql in (("SQL1", sql1), ("SQL2", sql2)) if sql is None]
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


def _choice(sql: str, sql1: str, sql2: str) -> Literal["first", "second", "same", "new"]:
    chosen, first, second = (normalise_sql(text) for text in (sql, sql1, sql2))
    if first == second == chosen:
        return "same"
    return "first" if chosen == first else "second" if chosen == second else "new"
