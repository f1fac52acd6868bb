"""The stages of SEA-SQL: value retrieval, zero-shot SQL, bias elimination, execution adjustment."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Reply, Request
from tasks.backbone.replies.json_text import fenced
from tasks.backbone.replies.sql_text import read_sql
from tasks.backbone.replies.thoughts import without_thoughts
from tasks.core.errors import BackboneError
from tasks.core.records import (
    Answer,
    ColumnValues,
    Correction,
    Elimination,
    Execution,
    FewShotQuestion,
    Question,
)
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_text import SchemaView
from tasks.retrieval.value_index import DatabaseValues
from tasks.settings.stages import BiasEliminationSettings, ExecutionAdjustmentSettings
from tasks.sql.parsing import parse
from tasks.sql.same_query import query_key
from tasks.stages import prompts
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import ExecutedSql, outcome_of, schema_messages, show_result
from tasks.stages.stage import stage


@stage()
async def value_retrieval(
    question: Question, values: DatabaseValues, per_column: int, bm25_top_k: int
) -> tuple[ColumnValues, ...]:
    """Retrieve the values that the question's text, its evidence apart, may mean: the likeliest of each column.

    Looked for are the `bm25_top_k` best texts of a column by BM25. Columns without a value are absent.
    """
    return await values.retrieve(question.text, per_column, bm25_top_k)


_QUERY = re.compile(r"[\s(]*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE)
_FROM = re.compile(r"\bFROM\b", re.IGNORECASE)
_CONTENT = re.compile(r"\bFROM\b|[\d('\"]", re.IGNORECASE)
"""What "SELECT Sorry" does not have, although it can be parsed."""


async def ask_continuation(backbone: MeteredBackbone, messages: Sequence[Message], dialect: str) -> Answer:
    """Ask for the rest of a query after SELECT, and once again when the reply holds none."""
    return await backbone.ask_sql(
        messages, lambda text: read_continuation(text.encode("utf-8", "replace").decode(), dialect)
    )


def read_continuation(text: str, dialect: str) -> str | None:
    """Return the query of a reply to a prompt that ends with SELECT, None when there is none.

    SELECT is put back before a reply that continues from it, and what stands behind a fence that closes it is left out.
    A reply that starts again, in a fence, as JSON or after a sentence, is read as any other.

    >>> read_continuation("name FROM pet WHERE id IN (SELECT pet FROM owner);", "sqlite")
    'SELECT name FROM pet WHERE id IN (SELECT pet FROM owner)'
    >>> read_continuation("Here is the query: SELECT name FROM pet", "sqlite")
    'SELECT name FROM pet'
    >>> read_continuation("(SELECT COUNT(*) FROM pet) - (SELECT COUNT(*) FROM owner)", "sqlite")
    'SELECT (SELECT COUNT(*) FROM pet) - (SELECT COUNT(*) FROM owner)'
    >>> read_continuation("I cannot answer that.", "sqlite") is None
    True
    """
    text = _before_closing_fence(without_thoughts(text).strip())
    inside = next((content.strip() for _, content in fenced(text)), text)
    if not inside or _is_query(inside, dialect):
        return read_sql(text)
    as_query, as_continuation = read_sql(inside), read_sql(f"SELECT {inside}")
    candidates = (as_query, as_continuation) if inside.startswith("{") else (as_continuation, as_query)
    for sql in candidates:
        if sql is not None and _CONTENT.search(sql) and parse(sql, dialect).tree is not None:
            return sql
    return next((sql for sql in candidates if sql is not None and _FROM.search(sql)), None)


def _before_closing_fence(text: str) -> str:
    """Return the text before its only fence mark where that closes a query, as if the prompt had opened a fence."""
    before, mark, after = text.partition("```")
    closes = mark and before.strip() and not after[:1].strip() and not _QUERY.match(after)
    return before.strip() if closes and "```" not in after else text


def _is_query(text: str, dialect: str) -> bool:
    """Return whether a text begins with a query of its own; after SELECT, a parenthesis may begin an expression."""
    from sqlglot import exp

    if not _QUERY.match(text) or not text.startswith("("):
        return _QUERY.match(text) is not None
    tree = parse(read_sql(text) or "", dialect).tree
    return isinstance(tree, exp.Query) and not tree.alias


@stage(version=2, prompts=("zero_shot_sql",))
async def zero_shot_sql(few_shot: FewShotQuestion, view: SchemaView, backbone: MeteredBackbone) -> Answer:
    """Write a first SQL; without demonstrations but in the paper's comparison with few-shot prompts (Table 9)."""
    text = prompts.render(
        "zero_shot_sql",
        question=few_shot.question,
        dialect=view.dialect_name,
        rules=view.prompt.rules,
        demonstrations=few_shot.demonstrations,
        demonstrations_first=view.prompt.demonstrations_first,
        parts=view.render(),
    )
    return await ask_continuation(backbone, (Message("user", text.rstrip()),), view.dialect)


TEMPLATE = "bias_elimination"


def elimination_prompt(
    question: Question, view: SchemaView, sql: str, execution: Execution, rows_shown: int
) -> str:
    """Return the eliminator's prompt, the same text in training and in use, up to where the response begins.

    Of the result, `rows_shown` rows at most; `execution` has to hold as many.
    """
    candidate = ExecutedSql(sql, show_result(execution, rows_shown))
    return prompts.render(
        TEMPLATE,
        instruction=prompts.render(TEMPLATE, "instruction", dialect=view.dialect_name).strip(),
        input=prompts.render(
            TEMPLATE, "input", parts=view.render(), question=question, candidate=candidate
        ).strip(),
    )


@stage(version=2, prompts=(TEMPLATE,))
async def bias_elimination(
    question: Question,
    view: SchemaView,
    sql: str,
    settings: BiasEliminationSettings,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Elimination:
    """Let the eliminator, with greedy decoding, repeat the preliminary SQL or write a better one.

    The preliminary one is kept, with a note, when the eliminator refuses the request (a prompt too long, say), is cut
    off, or writes no SQL.
    """
    execution = await runner.run(sql, rows=settings.rows_shown)
    text = elimination_prompt(question, view, sql, execution, settings.rows_shown)
    try:
        reply = await backbone.complete(
            Request((Message("user", text),), temperature=0.0),
            lambda reply: read_elimination(reply, sql, view.dialect).outcome != "kept",
        )
    except BackboneError as error:
        if error.transient or error.fatal:
            raise
        elimination = Elimination(sql, "kept", f"the eliminator refused: {error}")
    else:
        elimination = read_elimination(reply, sql, view.dialect)
    if elimination.outcome == "kept":
        kept = f"{elimination.note}; the preliminary SQL was kept"
        backbone.note(kept)
        backbone.fall_back(kept)
    return elimination


def read_elimination(reply: Reply, sql: str, dialect: str) -> Elimination:
    """Return what the eliminator's reply changes about a preliminary SQL."""
    if reply.truncated:
        return Elimination(sql, "kept", "the eliminator's reply was cut off")
    better = read_sql(reply.text.encode("utf-8", "replace").decode())
    if better is None:
        start = " ".join(reply.text[:80].split())
        return Elimination(sql, "kept", f'the eliminator wrote no SQL: "{start}"')
    if query_key(better, dialect) == query_key(sql, dialect):
        return Elimination(sql, "unchanged")
    return Elimination(better, "changed")


MAX_REASON = 600
"""Characters of a reason that are remembered: it is shown again in every later round."""
NO_REASON = "No reason was given."
NO_QUERY = "(no query)"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A SQL that failed, as the prompts show it."""

    number: int  # its place in the memory, from 1
    sql: str  # the SQL, or `NO_QUERY` where a reply held none
    result: str  # the error, or the time-out
    reason: str = ""  # why it failed, as the backbone sees it; "" before the first request
    times: int = 1  # how often the backbone gave this SQL


@stage(version=2, prompts=("execution_reflection", "execution_correction"))
async def execution_adjustment(
    question: Question,
    view: SchemaView,
    sql: str | None,
    settings: ExecutionAdjustmentSettings,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Correction:
    """While the SQL fails to execute, ask why, and then for another one; both see every SQL that has failed so far.

    A result without rows is no failure; no SQL at all is one. A SQL that comes a second time is not shown a second
    time: its place in the memory says how often it was given, and it needs no second reflection. A round whose reply
    cannot be read keeps the SQL of the round before.
    """
    result = await runner.run(sql, rows=0) if sql else None
    before = outcome_of(result)
    memory: tuple[Mistake, ...] = ()
    rounds, is_new = 0, True
    while rounds < settings.rounds and (result is None or not result.ok):
        if is_new:
            memory = remember(memory, sql or NO_QUERY, show_result(result, rows=0), view.dialect)
        if not memory[-1].reason:
            reason = await reflect(question, view, memory, backbone)
            memory = (*memory[:-1], replace(memory[-1], reason=reason))
        corrected = await correct(question, view, memory, rounds, backbone)
        rounds, is_new = rounds + 1, corrected is not None
        if corrected is None:
            backbone.note(f"round {rounds}: the SQL before it was kept")
        else:
            sql, result = corrected, await runner.run(corrected, rows=0)
    return Correction(sql, rounds, before, outcome_of(result))


async def reflect(
    question: Question, view: SchemaView, memory: Sequence[Mistake], backbone: MeteredBackbone
) -> str:
    """Ask why the last SQL fails; a line of text, never empty."""
    text = await backbone.ask_text(
        schema_messages("execution_reflection", view, question=question, mistakes=memory)
    )
    reason = " ".join(text.encode("utf-8", "replace").decode().split())
    if not reason:
        backbone.count_unusable("no reason was given for a failure")
        return NO_REASON
    return reason if len(reason) <= MAX_REASON else f"{reason[:MAX_REASON]}..."


async def correct(
    question: Question, view: SchemaView, memory: Sequence[Mistake], round: int, backbone: MeteredBackbone
) -> str | None:
    """Ask for another SQL; None where no reply held one.

    Each round is a sample of its own: after an unreadable reply the prompt is the same, its answer need not be.
    """
    messages = schema_messages("execution_correction", view, question=question, mistakes=memory)
    reply = await backbone.ask_json(messages, SqlReply, sample=round)
    return sql_answer(reply, backbone, otherwise="the SQL before it was kept").sql


def remember(memory: Sequence[Mistake], sql: str, result: str, dialect: str) -> tuple[Mistake, ...]:
    """Return the memory with a failed SQL at its end; one that is in it already moves there and counts once more."""
    query = query_key(sql, dialect)
    earlier = next((mistake for mistake in memory if query_key(mistake.sql, dialect) == query), None)
    others = [mistake for mistake in memory if mistake is not earlier]
    last = replace(earlier, times=earlier.times + 1) if earlier else Mistake(0, sql, result)
    return tuple(replace(mistake, number=number) for number, mistake in enumerate((*others, last), start=1))
