"""Correction by one kind of feedback (DAC, section 3.4)."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tasks.backbone.metered import MeteredBackbone
from tasks.core.dac_records import AlignedToken, Entities, Revision, RevisionRequest
from tasks.core.records import Question
from tasks.database.identifiers import quoted_if_needed
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_view import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.sql.elements import used_elements
from tasks.sql.parsing import normalise_sql
from tasks.sql.skeleton import skeleton, skeleton_length
from tasks.stage_runs.stage import stage
from tasks.stages.dac.examples import shown_examples
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages
from tasks.stages.shown_results import outcome_of, show_result

KINDS = {"tbl": "table", "col": "column", "val": "value"}


@stage(version=2, prompts=("dac_correction",))
async def dac_correction(
    question: Question,
    view: SchemaView,
    request: RevisionRequest,
    demonstrations: tuple[GroundedDemonstration, ...],
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Revision:
    """Ask once for a better SQL, and accept it if it executes.

    The tables of the SQL and of the missing entities are shown.

    Returns:
        The new SQL, or the one before where the reply holds none, the same, one that fails to execute, or, where the
        request is strict, one with a longer skeleton; a note says which.
    """
    sql, feedback, missing = request.sql, request.feedback, request.feedback.missing
    tables = (*(used_elements(sql, view.schema).tables if sql else ()), *missing.tables)
    tables += tuple(column.table for column in missing.columns)
    reply = await backbone.ask_json(
        schema_messages(
            "dac_correction",
            view.limited_to(tables),
            question=question,
            examples=shown_examples(demonstrations, view.prompt),
            alignment=tuple(dict.fromkeys(annotations(request.alignment, view.dialect))),
            sql=sql or "",
            kind=feedback.kind,
            error=feedback.error,
            missing=shown_entities(missing, view.dialect),
            skeleton=feedback.skeleton,
            strict=request.strict,
        ),
        SqlReply,
        sample=request.round,
        temperature=request.temperature,
    )
    answer = sql_answer(reply, backbone, otherwise="the SQL before it was kept")
    if answer.sql is None:
        backbone.note(f"{answer.note}; the SQL before it was kept")
        return Revision(feedback.kind, sql, "unreadable", note=answer.note)
    if sql is not None and normalise_sql(answer.sql, view.dialect) == normalise_sql(sql, view.dialect):
        return Revision(feedback.kind, sql, "unchanged", answer.sql, "the same SQL came back")
    result = await runner.run(answer.sql, 1)
    if not result.ok:
        note = f"the new SQL fails to execute ({outcome_of(result)})"
        backbone.note(f"{note}: {show_result(result, 1)}; the SQL before it was kept")
        return Revision(feedback.kind, sql, "rejected", answer.sql, note)
    if request.strict and feedback.kind != "execution" and _longer(answer.sql, sql, view.dialect):
        note = "the new SQL is longer"
        backbone.note(f"{note}; the SQL before it was kept")
        return Revision(feedback.kind, sql, "rejected", answer.sql, note)
    return Revision(feedback.kind, answer.sql, "accepted", answer.sql)


def _longer(sql: str, before: str | None, dialect: str) -> bool:
    """Whether a SQL's skeleton is longer than another's; False where one of them has none."""
    own, other = (skeleton(text, dialect) if text else None for text in (sql, before))
    return own is not None and other is not None and skeleton_length(own) > skeleton_length(other)


def annotations(tokens: Sequence[AlignedToken], dialect: str) -> Iterator[str]:
    """Yield one line for each run of tokens that mean the same.

    >>> list(annotations([AlignedToken("first", "s", "n", "col"), AlignedToken("name", "s", "n", "col")], "sqlite"))
    ['"first name": s.n (column)']
    """
    for (table, column, kind), run in groupby(tokens, key=lambda one: (one.table, one.column, one.type)):
        if kind is not None:
            names = ".".join(quoted_if_needed(name, dialect) for name in (table, column) if name)
            yield f'"{" ".join(one.token for one in run)}": {names} ({KINDS[kind]})'


def shown_entities(entities: Entities, dialect: str) -> tuple[str, ...]:
    """Return columns as `table.column`, and tables that none of them is of, each part quoted where SQL needs it."""
    owners = {column.table for column in entities.columns}
    tables = [quoted_if_needed(table, dialect) for table in entities.tables if table not in owners]
    return (
        *(f"the table {table}" for table in tables),
        *(
            f"the column {quoted_if_needed(one.table, dialect)}.{quoted_if_needed(one.column, dialect)}"
            for one in entities.columns
        ),
    )
