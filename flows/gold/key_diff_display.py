"""Output of `crosscheck golds diff`."""

from collections.abc import Iterator
from typing import Any

from flows.cli.output import result_as_object
from flows.gold.key_diff import KINDS, Difference, KeyDiff, Side
from flows.gold.review import result_tables, rows_in_words
from tasks.core.wording import counted, number, shorten
from tasks.documents.model import (
    Answer,
    Block,
    Code,
    Column,
    Document,
    QuestionItem,
    Questions,
    Sentence,
    Span,
    Table,
)

MOST_IDS = 20


def as_object(found: KeyDiff) -> dict[str, Any]:
    """Return what the keys disagree on as plain JSON."""
    return {
        "benchmark": found.benchmark.name,
        "revision": found.benchmark.revision,
        "rule": found.benchmark.rule,
        "keys": list(found.names),
        "equal": found.equal,
        "counts": {kind: len(found.of_kind(kind)) for kind in KINDS},
        "differences": [
            {
                "question_id": each.question.id,
                "database": each.question.database_id,
                "kind": each.kind,
                "other_text": each.other_text,
                **{name: _side(side) for name, side in zip(found.names, (each.a, each.b), strict=True)},
            }
            for each in found.differences
        ],
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "counted": side.counted,
        "sql": list(side.sqls),
        "question": side.question,
        "evidence": side.evidence,
        "reason": side.reason,
        "result": result_as_object(side.found) if side.found else None,
    }


def diff_document(found: KeyDiff, limit: int) -> Document:
    """Return the counts and the questions, each with both SQLs and, on a page, both results."""
    rows = tuple(
        (title, number(len(those)), shorten([each.question.id for each in those], MOST_IDS))
        for kind, title in KINDS.items()
        if (those := found.of_kind(kind))
    )
    order = {kind: place for place, kind in enumerate(KINDS)}
    named = [each for each in found.differences if each.kind != "absent"]
    listed = sorted(named, key=lambda each: order[each.kind])
    questions = Questions(
        tuple(_item(each, found.names) for each in listed),
        {"kind": "Difference", "database": "Database"},
        limit,
        "; --limit shows more, --html writes a page with both results",
    )
    a, b = found.names
    return Document(
        f"{counted(len(named), 'question')} on which {a} and {b} differ",
        (
            Table(
                "Differences",
                (Column("", "text"), Column("questions"), Column("ids", "text")),
                rows,
                f"{found.equal:,} questions are the same in both",
                wide=True,
            ),
            questions if questions.items else Sentence("There is none."),
        ),
        (
            Span("Crosscheck · answer keys of ", "quiet"),
            Span(found.benchmark.name, "strong"),
            f", revision {found.benchmark.revision} · rule {found.benchmark.rule}",
        ),
        name=f"{a} and {b}: {found.benchmark.name}",
    )


def _item(each: Difference, names: tuple[str, str]) -> QuestionItem:
    about = (each.question.database_id, each.question.difficulty, KINDS[each.kind])
    other = each.b.sqls[0] if each.b.sqls else None
    return QuestionItem(
        each.question.id,
        None,
        " · ".join(part for part in about if part),
        each.question.text,
        each.question.evidence,
        (
            _answer(names[0], each.a, each, other),
            _answer(names[1], each.b, each, each.a.sqls[0] if each.a.sqls else None),
        ),
        {"kind": KINDS[each.kind], "database": each.question.database_id},
    )


def _answer(name: str, side: Side, each: Difference, other: str | None) -> Answer:
    title = f"{name} ({rows_in_words(side.found)})" if side.found else name
    if not side.counted:
        title = f"{name}: not counted"
    return Answer(title, side.sqls[0] if side.sqls else None, other, blocks=tuple(_blocks(side, each)))


def _blocks(side: Side, each: Difference) -> Iterator[Block]:
    if each.other_text:
        yield Sentence(f"{side.question} {side.evidence}".rstrip(), "note")
    if side.reason:
        yield Sentence(side.reason, "note")
    yield from (Code(sql, "sql") for sql in side.sqls[1:])
    if side.found:
        yield from result_tables(side.found)
