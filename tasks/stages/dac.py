"""The stages of DAC but entity linking (sections 3.1, 3.3, 3.4): initial SQL, skeleton, feedback, correction."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tasks.backbone.metered import MeteredBackbone
from tasks.core.records import (
    AlignedToken,
    Answer,
    Demonstration,
    Entities,
    Feedback,
    ParsedSkeleton,
    Question,
    Revision,
    RevisionRequest,
    Sample,
)
from tasks.database.dialects import quoted_if_needed
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema, dialect_name
from tasks.database.schema_text import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.settings.pipeline import PromptSettings
from tasks.sql.elements import resolved_elements, used_elements
from tasks.sql.same_query import query_key
from tasks.sql.skeleton import read_skeleton, skeleton, skeleton_length
from tasks.stages import prompts
from tasks.stages.links import quoted_column
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import outcome_of, schema_messages, show_result
from tasks.stages.stage import stage


@dataclass(frozen=True, slots=True)
class ShownExample:
    """One demonstration as text; "" for what it does not have."""

    question: str
    sql: str
    schema: str  # the tables of its SQL
    alignment: str  # its alignment in the form of a reply
    evidence: str


def shown_examples(
    demonstrations: Iterable[GroundedDemonstration], prompt: PromptSettings
) -> tuple[ShownExample, ...]:
    """Return the demonstrations as text."""
    without_samples = prompt.model_copy(update={"sample_rows": 0})
    return tuple(
        ShownExample(
            demonstration.question,
            demonstration.sql,
            SchemaView(schema, without_samples).render().schema if (schema := demonstration.schema) else "",
            alignment_list(demonstration.tokens),
            demonstration.evidence,
        )
        for demonstration in demonstrations
    )


def alignment_list(tokens: Iterable[AlignedToken]) -> str:
    """Return an alignment in the form of a reply, on one line.

    >>> alignment_list([AlignedToken("singers", "singer", "", "tbl"), AlignedToken("?")])
    '{"alignment": [{"token": "singers", "schema": "singer", "type": "tbl"}, \
{"token": "?", "schema": null, "type": null}]}'
    """
    listed = [{"token": token.token, "schema": token.schema, "type": token.type} for token in tokens]
    return json.dumps({"alignment": listed}, ensure_ascii=False)


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

    The tables of the SQL and of the missing entities are shown. The SQL before is kept where the reply holds none, the
    same, one that fails to execute, or, where the request is strict, one with a longer skeleton; a note says which.
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
    if sql is not None and query_key(answer.sql, view.dialect) == query_key(sql, view.dialect):
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
    current, earlier = (skeleton(text, dialect) if text else None for text in (sql, before))
    return current is not None and earlier is not None and skeleton_length(current) > skeleton_length(earlier)


def annotations(tokens: Sequence[AlignedToken], dialect: str) -> Iterator[str]:
    """Yield one line for each run of tokens that mean the same.

    >>> list(annotations([AlignedToken("first", "s", "n", "col"), AlignedToken("name", "s", "n", "col")], "sqlite"))
    ['"first name": s.n (column)']
    """
    for (table, column, kind), run in groupby(
        tokens, key=lambda token: (token.table, token.column, token.type)
    ):
        if kind is not None:
            names = ".".join(quoted_if_needed(name, dialect) for name in (table, column) if name)
            yield f'"{" ".join(token.token for token in run)}": {names} ({KINDS[kind]})'


def shown_entities(entities: Entities, dialect: str) -> tuple[str, ...]:
    """Return columns as `table.column`, and tables that none of them is of, each part quoted where SQL needs it."""
    owners = {column.table for column in entities.columns}
    tables = [quoted_if_needed(table, dialect) for table in entities.tables if table not in owners]
    columns = (f"the column {quoted_column(column, dialect)}" for column in entities.columns)
    return (*(f"the table {table}" for table in tables), *columns)


@stage(version=2, prompts=("initial_sql",))
async def initial_sql(
    question: Question,
    view: SchemaView,
    demonstrations: tuple[GroundedDemonstration, ...],
    sample: Sample,
    backbone: MeteredBackbone,
) -> Answer:
    """Write the SQL that is to be corrected; a demonstration of an unknown database is shown without its schema."""
    reply = await backbone.ask_json(
        schema_messages(
            "initial_sql",
            view,
            question=question,
            examples=shown_examples(demonstrations, view.prompt),
        ),
        SqlReply,
        sample=sample.index,
        temperature=sample.temperature,
    )
    return sql_answer(reply, backbone)


NO_SKELETON = "no skeleton was parsed"


@stage(version=3, prompts=("skeleton_parsing",))
async def skeleton_parsing(
    question: Question,
    dialect: str,
    demonstrations: tuple[GroundedDemonstration, ...],
    backbone: MeteredBackbone,
) -> ParsedSkeleton:
    """Have a SQL written with invented names, and keep its skeleton; none, with a note, if it cannot be parsed.

    The evidence of the question and of the demonstrations is shown where they have one.
    """
    reply = await backbone.ask_json(
        prompts.messages(
            "skeleton_parsing",
            question=question,
            dialect=dialect_name(dialect),
            demonstrations=[Demonstration(one.question, one.sql, "", one.evidence) for one in demonstrations],
        ),
        SqlReply,
    )
    answer = sql_answer(reply, backbone, otherwise=NO_SKELETON)
    if answer.sql is None:
        return ParsedSkeleton(None, note=answer.note)
    reading = read_skeleton(answer.sql, dialect)
    if reading.text is None:
        backbone.note(f"the SQL for the skeleton cannot be parsed: {reading.reason}")
        backbone.fall_back(NO_SKELETON)
    return ParsedSkeleton(reading.text, answer.sql, reading.reason)


@stage()
async def consistent_sql(candidates: tuple[str, ...], runner: DatabaseRunner) -> str | None:
    """Return the SQL whose set of rows most of the candidates return, the first of them, ties in their order.

    One that fails to execute has no vote. If all fail, the first is returned; without candidates, None.
    """
    votes: dict[str, int] = {}
    written = [(query_key(sql, runner.database.schema.dialect), sql) for sql in candidates]
    known: dict[str, str | None] = {}
    for normal, sql in written:
        if normal not in known:
            known[normal] = await _agreeing(sql, votes, runner)
        if (leader := known[normal]) is not None:
            votes[leader] = votes.get(leader, 0) + 1
    return max(votes, key=lambda sql: votes[sql]) if votes else next(iter(candidates), None)


async def _agreeing(sql: str, votes: dict[str, int], runner: DatabaseRunner) -> str | None:
    """Return the earlier SQL with the same rows, else the SQL itself; None where it fails to execute."""
    for earlier in votes:
        if await runner.agree(earlier, sql):
            return earlier
    return sql if (await runner.run(sql, 0)).ok else None


@stage()
async def execution_feedback(sql: str | None, runner: DatabaseRunner) -> Feedback | None:
    """Return why a SQL fails, None where it executes; an empty result is no failure here."""
    result = await runner.run(sql, 1) if sql else None
    if result is not None and result.ok:
        return None
    return Feedback("execution", error=show_result(result, 1))


def missing_entities(
    sql: str | None, linked: Entities, schema: Schema, *, joins_count: bool = False
) -> Feedback | None:
    """Return the linked entities that a SQL does not use; None where it uses them all.

    What the SQL uses and the question does not mention is not missing. A SQL that cannot be parsed is searched for
    names, see `used_elements`; without a SQL everything is missing. With `joins_count`, a column that the SQL uses only
    to join counts as used.
    """
    elements = resolved_elements if joins_count else used_elements
    used = elements(sql, schema) if sql else None
    missing = Entities(
        tuple(table for table in linked.tables if used is None or table not in used.tables),
        tuple(column for column in linked.columns if used is None or column not in used.columns),
    )
    return Feedback("entities", missing=missing) if missing else None


def other_skeleton(
    sql: str | None, expected: str | None, dialect: str, *, never_longer: bool
) -> Feedback | None:
    """Return the expected skeleton where a SQL has another; None where it has it, or they cannot be compared.

    A count of rows and one of a column's values are compared as one, because a question rarely says which. With
    `never_longer`, an expected skeleton that is longer than the SQL's own is none (released code).
    """
    own = skeleton(sql, dialect) if sql else None
    if own is None or expected is None or _counts_as_one(own) == _counts_as_one(expected):
        return None
    if never_longer and skeleton_length(expected) > skeleton_length(own):
        return None
    return Feedback("skeleton", skeleton=expected)


def _counts_as_one(text: str) -> str:
    return text.replace("count ( _ )", "count ( * )")
