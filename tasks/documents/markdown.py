"""Documents in Markdown: names, ids and messages are hostile text, and nothing in them acts as Markdown or HTML."""

import re
from collections.abc import Iterable, Iterator

from tasks.documents import model
from tasks.documents.text import visible

_ACTING = re.compile(r"([\\`*_\[\]<>&|~#])")
_MARKS = {"strong": "**", "bad": "**"}


def markdown(document: model.Document) -> str:
    """Return a document; figures and cards are on pages only."""
    head = [f"# {inline(document.name or document.title)}"] if document.title else []
    lines = [*head, *([inline(document.lead)] if document.lead else []), *_blocks(document.blocks, 2)]
    return "\n\n".join(lines) + "\n"


def inline(text: model.Inline) -> str:
    """Return a text in one line in which nothing acts."""
    return "".join(map(_span, model.spans(text)))


def table_lines(table: model.Table) -> Iterator[str]:
    """Yield the lines of a table, without its title and caption."""
    columns = table.text_columns.values()
    yield f"| {' | '.join(inline(column.name) for column in columns)} |"
    yield f"|{'|'.join('---' if column.kind == 'text' else '---:' for column in columns)}|"
    for section in table.sections:
        for row in section:
            yield f"| {' | '.join(_cell(row[position]) for position in table.text_columns)} |"


def code(text: str) -> str:
    """Return a text as code within a line."""
    fence = "`" * (_longest_run(text) + 1)
    return f"{fence}{visible(text)}{fence}"


def _blocks(blocks: Iterable[model.Block], level: int) -> Iterator[str]:
    for block in blocks:
        yield from _block(block, level)


def _block(block: model.Block, level: int) -> Iterator[str]:
    match block:
        case model.Sentence():
            yield _fenced(model.plain(block.text)) if block.level == "message" else inline(block.text)
        case model.Bullets():
            if block.items:
                yield "\n".join(f"- {inline(item)}" for item in block.items)
        case model.Facts():
            yield "\n".join(f"- {inline(name)}: {inline(value)}" for name, value in block.items)
        case model.Code():
            yield _fenced(block.text, block.language)
        case model.Table():
            if block.title:
                yield f"{'#' * level} {inline(block.title)}"
            yield "\n".join(table_lines(block))
            if block.caption:
                yield inline(block.caption)
        case model.Section():
            yield f"{'#' * level} {inline(block.title)}"
            yield from _blocks(block.blocks, level + 1)
        case model.Columns():
            yield from _blocks(block.blocks, level)
        case model.Only():
            yield from _blocks(block.blocks if "markdown" in block.media else (), level)
        case model.Questions():
            for item in block.items[: block.first]:
                yield f"**{inline(item.id)}** ({inline(item.about)}) {inline(item.text)}"
                for answer in item.answers:
                    yield inline(answer.title) + ("" if answer.sql else ": no SQL")
                    if answer.sql:
                        yield _fenced(answer.sql.strip(), "sql")
        case model.Figure() | model.Legend() | model.Cards():
            pass  # on pages only


def _cell(cell: model.Cell) -> str:
    return inline(cell) if isinstance(cell, str | tuple | model.Span) else ""


def _span(span: model.Span) -> str:
    if span.tone == "code":
        return code(span.text)
    words = _ACTING.sub(r"\\\1", " ".join(visible(span.text).split()))
    if not words:
        return " " if span.text else ""
    blank_before = " " if span.text[0].isspace() else ""
    blank_after = " " if span.text[-1].isspace() else ""
    mark = _MARKS.get(span.tone, "")
    return f"{blank_before}{mark}{words}{mark}{blank_after}"


def _fenced(text: str, language: str = "") -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{visible(text)}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
