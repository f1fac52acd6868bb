"""The stages of RSL-SQL: forward and backward link, two queries, augmentation, selection, self-correction."""

import json
from collections.abc import Iterable, Sequence
from typing import Literal

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.core.records import (
    Answer,
    Augmentation,
    Correction,
    CorrectionCase,
    Execution,
    FewShotQuestion,
    Link,
    Question,
    Selection,
    SqlPair,
)
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema
from tasks.database.schema_text import SchemaView
from tasks.settings.stages import AugmentationPart, BackwardLinkSettings, CorrectionTurns, SelectionSettings
from tasks.sql.elements import columns_mentioned
from tasks.sql.same_query import query_key, same_query
from tasks.stages import prompts
from tasks.stages.links import make_link, read_link, shown_columns, shown_tables
from tasks.stages.replies import (
    AugmentationReply,
    ConditionsReply,
    KeywordsReply,
    LinkReply,
    SqlReply,
    sql_answer,
)
from tasks.stages.schema_prompt import ExecutedSql, outcome_of, schema_messages, show_result
from tasks.stages.stage import stage


@stage(version=2, prompts=("forward_link",))
async def forward_link(
    question: Question,
    view: SchemaView,
    max_columns_per_table: int,
    earlier: Link | None,
    backbone: MeteredBackbone,
) -> Link:
    """Link from the question to the full schema.

    `earlier` is the union of the links so far where this is not the first iteration (the authors' ACL code). What the
    schema does not have is dropped and noted. An unreadable reply links nothing; a note says so.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "forward_link",
            view,
            question=question,
            max_columns_per_table=max_columns_per_table,
            hints=shown_columns(view.schema, earlier),
        ),
        LinkReply,
        otherwise="nothing was linked",
    )
    link = read_link(view.schema, reply.tables, reply.columns) if reply else Link()
    if link.dropped:
        backbone.note(f"not in the schema: {', '.join(link.dropped)}")
    return link


@stage(version=2, prompts=("preliminary_sql",))
async def preliminary_sql(
    few_shot: FewShotQuestion, view: SchemaView, link: Link | None, backbone: MeteredBackbone
) -> Answer:
    """Write a first SQL.

    The forward link is named in the prompt beside the full schema; the baselines have none.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "preliminary_sql",
            view,
            question=few_shot.question,
            demonstrations=few_shot.demonstrations,
            linked_tables=shown_tables(view.schema, link),
            linked_columns=shown_columns(view.schema, link),
        ),
        SqlReply,
    )
    return sql_answer(reply, backbone)


@stage(version=2)
async def backward_link(schema: Schema, sql: str | None, settings: BackwardLinkSettings) -> Link:
    """Link from the preliminary SQL back to the full schema; without a SQL, nothing."""
    return make_link(schema, columns_mentioned(sql, schema, settings.match) if sql else ())


@stage(version=2, prompts=("forward_link",))
async def augmentation_elements(
    question: Question, view: SchemaView, max_columns_per_table: int, backbone: MeteredBackbone
) -> Link:
    """Return H_E: ask the forward link's prompt again, on the reduced schema with its descriptions.

    Names that the reduced schema does not have are dropped and noted. An unreadable reply links nothing; a note
    says so.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "forward_link",
            view,
            question=question,
            max_columns_per_table=max_columns_per_table,
            hints=(),
        ),
        LinkReply,
        otherwise="no element was named",
    )
    return _linked(view, reply.tables, reply.columns, backbone) if reply else Link()


@stage(prompts=("augmentation_keywords",))
async def augmentation_keywords(
    question: Question, view: SchemaView, backbone: MeteredBackbone
) -> tuple[str, ...]:
    """Return H_K: the SQL keywords that the question needs; none, with a note, when no reply could be read."""
    reply = await backbone.ask_json(
        schema_messages(
            "augmentation_keywords",
            view,
            question=question,
        ),
        KeywordsReply,
        otherwise="no keyword was named",
    )
    return _on_one_line(reply.sql_keywords) if reply else ()


@stage(prompts=("augmentation_conditions",))
async def augmentation_conditions(question: Question, backbone: MeteredBackbone) -> tuple[str, ...]:
    """Return H_C: the question's conditions, from its text alone; none, with a note, when no reply could be read."""
    reply = await backbone.ask_json(
        prompts.messages("augmentation_conditions", question=question),
        ConditionsReply,
        otherwise="no condition was named",
    )
    return _on_one_line(reply.conditions) if reply else ()


_KEYS = {
    "elements": '"tables" (a list of table names), "columns" (a list of "table.column")',
    "keywords": '"sql_keywords" (a list of strings)',
    "conditions": '"conditions" (a list of strings)',
}


@stage(prompts=("augmentation_together",))
async def augmentation_together(
    question: Question,
    view: SchemaView,
    parts: tuple[AugmentationPart, ...],
    max_columns_per_table: int,
    backbone: MeteredBackbone,
) -> Augmentation:
    """Return elements, keywords and conditions from one call, which sends the schema once (our extension).

    A part that is not in `parts` is None. If the reply cannot be read, every part is empty and a note says so.
    """
    reply = await backbone.ask_json(
        schema_messages(
            "augmentation_together",
            view,
            question=question,
            parts_on=parts,
            max_columns_per_table=max_columns_per_table,
            keys=", ".join(_KEYS[part] for part in parts),
        ),
        AugmentationReply,
        otherwise="nothing was named",
    ) or AugmentationReply(tables=[])
    return Augmentation(
        _linked(view, reply.tables, reply.columns, backbone) if "elements" in parts else None,
        _on_one_line(reply.sql_keywords) if "keywords" in parts else None,
        _on_one_line(reply.conditions) if "conditions" in parts else None,
    )


def _linked(
    view: SchemaView, tables: Iterable[str], columns: Iterable[str], backbone: MeteredBackbone
) -> Link:
    link = read_link(view.schema, tables, columns)
    if link.dropped:
        backbone.note(f"not in the reduced schema: {', '.join(link.dropped)}")
    return link


def _on_one_line(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (" ".join(text.split()) for text in texts)
    return tuple(dict.fromkeys(line for line in lines if line))


@stage(version=2, prompts=("augmented_sql",))
async def augmented_sql(
    few_shot: FewShotQuestion, view: SchemaView, augmentation: Augmentation, backbone: MeteredBackbone
) -> Answer:
    """Write a SQL from the reduced schema; a part of the augmentation that is None is not shown."""
    reply = await backbone.ask_json(
        schema_messages(
            "augmented_sql",
            view,
            question=few_shot.question,
            demonstrations=few_shot.demonstrations,
            keywords=augmentation.keywords or (),
            linked_tables=shown_tables(view.schema, augmentation.elements),
            linked_columns=shown_columns(view.schema, augmentation.elements),
            conditions=augmentation.conditions or (),
        ),
        SqlReply,
    )
    return sql_answer(reply, backbone)


@stage(version=4, prompts=("binary_selection",))
async def binary_selection(
    few_shot: FewShotQuestion,
    view: SchemaView,
    candidates: SqlPair,
    settings: SelectionSettings,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Selection:
    """Execute both candidates, each within the benchmark's time limit, and ask which is better.

    By default, two candidates that are the same query and return rows need no call. Where they fail or return nothing,
    the call may repair them: in the authors' recorded runs on BIRD dev it made 3 of 589 identical pairs right with
    DeepSeek, none of 697 with GPT-4o, and none wrong. A missing candidate leaves the other; an unreadable reply leaves
    SQL2, and so do two choices that differ with the order of the queries (`both_orders`).
    """
    sql1, sql2 = candidates.sql1, candidates.sql2
    if sql1 is None or sql2 is None:
        backbone.note(f"{_missing(candidates)}: nothing to select from")
        backbone.fall_back("there was nothing to select from")
        return Selection(sql2 or sql1, "second" if sql2 else "first", "default")
    first = await runner.run(sql1, settings.rows_shown)
    if settings.shortcut != "none" and same_query(sql1, sql2, view.dialect) and first.ok and not first.empty:
        return Selection(sql2, "same", "shortcut")
    second = await runner.run(sql2, settings.rows_shown)
    if settings.shortcut == "result" and (decided := await _shortcut(sql1, first, sql2, second, runner)):
        return Selection(sql2, decided, "shortcut")
    shown = [
        ExecutedSql(sql, show_result(result, settings.rows_shown, counts=settings.counts))
        for sql, result in ((sql1, first), (sql2, second))
    ]

    def prompt(queries: Sequence[ExecutedSql]) -> tuple[Message, ...]:
        return schema_messages(
            "binary_selection",
            view,
            question=few_shot.question,
            demonstrations=few_shot.demonstrations,
            candidates=list(queries),
        )

    otherwise = "SQL2 was kept"
    answer = sql_answer(await backbone.ask_json(prompt(shown), SqlReply), backbone, otherwise)
    if answer.sql is None:
        backbone.note(f"{answer.note}; SQL2 was kept")
        return Selection(sql2, "second", "default")
    choice = _choice(answer.sql, candidates, view.dialect)
    if settings.both_orders and choice != "same" and not await runner.agree(sql1, sql2):
        other = sql_answer(await backbone.ask_json(prompt(shown[::-1]), SqlReply), backbone, otherwise)
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
    """Return which candidate a SQL is: "same" where it is both of them, "new" where it is none."""
    chosen, first, second = (
        query_key(text or "", dialect) for text in (sql, candidates.sql1, candidates.sql2)
    )
    if first == second == chosen:
        return "same"
    return "first" if chosen == first else "second" if chosen == second else "new"


@stage(version=3, prompts=("self_correction",))
async def self_correction(
    case: CorrectionCase,
    view: SchemaView,
    settings: CorrectionTurns,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Correction:
    """Ask again, in one conversation, while the SQL raises, times out or returns no row, and rounds remain.

    No SQL at all always needs a correction. A reply that repeats a query of the conversation ends it: the model
    insists, for example because an empty result is right. The first turn shows the SQL ("informed") or, as in the
    authors' first code, neither it nor its error ("blind"). A round whose reply cannot be read keeps the SQL of the
    round before. The conversation keeps the SQL that was read from each reply.
    """
    few_shot, sql = case.few_shot, case.sql
    result = await runner.run(sql, rows=0) if sql else None
    before = outcome_of(result)
    conversation: tuple[Message, ...] = ()
    rounds = 0
    informed = settings.first_turn == "informed" and sql is not None
    shown = [sql] if sql and informed else []
    repeated = False
    while rounds < settings.rounds and not repeated and _needs_correction(result, settings):
        current = ExecutedSql(sql or "", show_result(result, rows=0))
        if not conversation:
            conversation = schema_messages(
                "self_correction",
                view,
                question=few_shot.question,
                demonstrations=few_shot.demonstrations,
                keywords=case.augmentation.keywords or (),
                conditions=case.augmentation.conditions or (),
                empty_counts=settings.when == "error_or_empty",
                current=current if informed else None,
            )
        else:
            turn = prompts.render(
                "self_correction",
                "again",
                current=current,
                dialect=view.dialect_name,
                empty_counts=settings.when == "error_or_empty",
            )
            conversation = (*conversation, Message("user", turn))
        reply = await backbone.ask_json(conversation, SqlReply)
        answer = sql_answer(reply, backbone, otherwise="the SQL before it was kept")
        rounds += 1
        if answer.sql is None:
            backbone.note(f"round {rounds}: {answer.note}; the SQL before it was kept")
        else:
            repeated = any(same_query(answer.sql, earlier, view.dialect) for earlier in shown)
            shown.append(answer.sql)
            sql, result = answer.sql, await runner.run(answer.sql, rows=0)
        previous = json.dumps({"sql": answer.sql or ""}, ensure_ascii=False)
        conversation = (*conversation, Message("assistant", previous))
    return Correction(sql, rounds, before, outcome_of(result))


def _needs_correction(result: Execution | None, settings: CorrectionTurns) -> bool:
    if result is None or not result.ok:
        return True
    return settings.when == "error_or_empty" and result.empty
