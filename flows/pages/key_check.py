"""Output of `crosscheck benchmarks verify --key`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from flows.evaluate.gold_check import CheckedEntry, CheckedKey, CheckedSql
from tasks.core.records import Execution
from tasks.core.wording import counted, shorten
from tasks.documents.model import (
    AnswerBlock,
    Block,
    Bullets,
    Code,
    Column,
    Document,
    Only,
    QuestionItem,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
    Tone,
    reading,
)
from tasks.results.run_record import JsonDocument, at

MAX_IDS = 20
KINDS: dict[str, Tone] = {
    "does not run": "bad",
    "another result": "better",
    "same result": "quiet",
    "not compared": "doubt",
    "no SQL": "quiet",
}
"""What was found of the SQL of a question, the most important first."""


class SqlDocument(JsonDocument):
    """One SQL of a key."""

    sql: str
    status: str = at("execution", "status", default="missing_database")
    error: str = at("execution", "error", default="")
    row_count: int | None = at("execution", "row_count", default=None)
    same_as_official: bool | None = at("same")


class EntryDocument(JsonDocument):
    """What a key changes of one question."""

    question_id: str = at("entry", "question_id")
    action: str = at("entry", "action")
    reason: str = at("entry", "reason")
    source: str = at("entry", "source")
    question: str | None = at("entry", "question")
    evidence: str | None = at("entry", "evidence")
    database: str = at("question", "database_id")
    other_text: bool
    sql: tuple[SqlDocument, ...] = at("sqls")


class KeyDocument(JsonDocument):
    """What `benchmarks verify --key --json` prints."""

    benchmark: str = at("benchmark", "name")
    revision: str = at("benchmark", "revision")
    rule: str = at("benchmark", "rule")
    key: str = at("key", "name")
    file: Path = at("key", "file")
    sha256: str = at("key", "sha256")
    actions: dict[str, int]
    differing: tuple[str, ...]
    same_as_official: tuple[str, ...] = at("same")
    other_text: tuple[str, ...]
    absent: Annotated[list[str], BeforeValidator(sorted)] = at("key", "absent")
    not_run: tuple[str, ...]
    problems: tuple[str, ...]
    entries: tuple[EntryDocument, ...]


def key_document(checked: CheckedKey) -> Document:
    """Return the counts, the questions whose result differs or does not, and everything that is wrong.

    A page also has every question that the key changes, with both SQLs.
    """
    key, benchmark = checked.key, checked.benchmark
    done = ", ".join(f"{count} {action}" for action, count in checked.actions.items())
    listed = (
        (f"Another result than the official gold (rule {benchmark.rule})", checked.differing),
        (f"The result of the official gold (rule {benchmark.rule}), so that nothing changes", checked.same),
        (
            "Another text, so that answers to the benchmark's own text are not scored by this key",
            checked.other_text,
        ),
        ("Not in the key, so that they are not scored by it", sorted(key.absent)),
        ("Not run, the database is missing", checked.not_run),
    )
    blocks: list[Block] = [Sentence(f"{key.file}, sha256 {key.sha256}", "note")]
    blocks += [Sentence(note, "warning") for note in key.notes]
    blocks += [
        Sentence(f"{title}: {counted(len(ids), 'question')} ({shorten(ids, MAX_IDS)})")
        for title, ids in listed
        if ids
    ]
    if checked.problems:
        title = Span(counted(len(checked.problems), "problem"), "bad")
        blocks.append(Section(title, (Bullets(tuple(checked.problems)),), notes=True))
    else:
        some = any(entry.sqls for entry in checked.entries)
        blocks.append(Sentence("Every SQL runs." if some else "There is no SQL to run."))
    if checked.entries:
        filters = {"result": "Result", "action": "Action", "database": "Database"}
        items = tuple(_item(entry, key.name) for entry in checked.entries)
        questions = Questions(items, filters, note="Highlighted: differences between the two queries.")
        blocks.append(Only(("page",), (Section("Changed questions", (questions,), "questions"),)))
    return Document(
        f"The key {key.name} changes {counted(len(checked.entries), 'question')}",
        tuple(blocks),
        (
            Span("Crosscheck · answer key of ", "quiet"),
            Span(benchmark.name, "strong"),
            f", revision {benchmark.revision} · rule {benchmark.rule}",
        ),
        done,
        "bad" if checked.problems else "",
        reading(
            Sentence(
                "Every SQL of the key is run, and its result compared with the official gold's under the "
                "benchmark's rule. With another result, the key can judge an answer otherwise than the "
                "official gold; with the same result it cannot. A question with another text is not scored by "
                "the key: the models did not see that text."
            )
        ),
        name=f"{key.name}: answer key of {benchmark.name}",
    )


def _item(checked: CheckedEntry, name: str) -> QuestionItem:
    question, entry, kind = checked.question, checked.entry, _kind(checked)
    official, *further = checked.golds or (None,)
    own = checked.sqls[0].sql if checked.sqls else None
    ran = f" ({_rows_in_words(checked.gold)})" if checked.gold else ""
    more = (
        *(Code(sql, "sql") for sql in further if sql),
        *(_result_tables(checked.gold) if checked.gold else ()),
    )
    return QuestionItem(
        question.id,
        Span(kind, KINDS[kind], "badge"),
        " · ".join(filter(None, (question.database_id, question.difficulty, entry.action))),
        question.text,
        question.evidence,
        (
            AnswerBlock(f"official gold{ran}", official, own, blocks=more),
            AnswerBlock(
                f"{name}: {entry.action}{_ran(checked.sqls[:1])}",
                own,
                official,
                blocks=tuple(_blocks(checked)),
            ),
        ),
        {"result": kind, "action": entry.action, "database": question.database_id},
    )


def _kind(checked: CheckedEntry) -> str:
    sqls = checked.sqls
    if not sqls:
        return "no SQL"
    if any(sql.execution is not None and not sql.execution.ok for sql in sqls):
        return "does not run"
    if any(sql.same is False for sql in sqls):
        return "another result"
    return "same result" if all(sql.same for sql in sqls) else "not compared"


def _ran(sqls: tuple[CheckedSql, ...]) -> str:
    return "".join(
        f" ({_rows_in_words(sql.execution) if sql.execution else 'the database is missing'})" for sql in sqls
    )


def _blocks(checked: CheckedEntry) -> Iterator[Block]:
    """Yield what a page shows of a key's answer below its first SQL: why, its text, results and further SQL."""
    entry = checked.entry
    if entry.reason or entry.source:
        yield Sentence(f"{entry.reason}{f' ({entry.source})' if entry.source else ''}".strip(), "note")
    if checked.other_text:
        text = checked.question.text if entry.question is None else entry.question
        hint = checked.question.evidence if entry.evidence is None else entry.evidence
        yield Sentence(f"its text: {text} {hint}".rstrip(), "note")
    for number, sql in enumerate(checked.sqls):
        if number:
            yield Sentence(f"also right{_ran((sql,))}", "note")
            yield Code(sql.sql, "sql")
        if sql.execution:
            yield from _result_tables(sql.execution)


def _result_tables(result: Execution) -> Iterator[Table]:
    """Yield the rows of a result as a table; nothing if the query did not finish."""
    if not result.ok:
        return
    headers = tuple(Column(name, "text") for name in result.columns)
    rows = tuple(tuple("NULL" if cell is None else str(cell) for cell in row) for row in result.rows)
    left = (result.row_count or 0) - len(rows)
    yield Table("", headers, rows, f"and {counted(left, 'more row')}" if left > 0 else "")


def _rows_in_words(result: Execution) -> str:
    """Say how many rows a result has, or why there is none."""
    return counted(result.row_count or 0, "row") if result.ok else f"{result.status}: {result.error}"
