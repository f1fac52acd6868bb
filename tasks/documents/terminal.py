"""Documents on a terminal: in colours where there are any, whole lines in a file or a pipe."""

import re
from collections.abc import Iterable
from typing import TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as Grid

from tasks.core.wording import and_more
from tasks.documents import model
from tasks.documents.text import compared_tokens, visible

BOUNDLESS = 100_000
"""Width of output that is not a terminal: nothing in a file or a pipe is wrapped, cut or left out for its width."""
_STYLES: dict[model.Tone, str] = {
    "strong": "bold", "quiet": "dim", "good": "green", "better": "green", "bad": "red", "doubt": "yellow"
}  # fmt: skip
_LEVELS: dict[model.Level, tuple[str, model.Tone]] = {
    "warning": ("[yellow]![/] ", ""), "error": ("[red]✗[/] ", ""), "note": ("", "quiet"), "score": ("", "strong")
}  # fmt: skip


class _Console(Console):
    """Console that leaves it to the command what happens when the reader of the output has closed it."""

    def on_broken_pipe(self) -> None:
        """Raise it again, where Rich would end the process with exit code 1."""
        raise BrokenPipeError


def open_console(stream: TextIO) -> Console:
    """Return a console with colours on a terminal only, and without emoji codes (`:name:`) and line breaks.

    It is as wide as the terminal, and breaks texts at blanks; where the output is not one, it is `BOUNDLESS`.
    """
    wide = None if stream.isatty() else BOUNDLESS
    return _Console(file=stream, highlight=False, emoji=False, soft_wrap=wide is not None, width=wide)


def literal(text: str) -> str:
    """Return text that is printed as it is: nothing in it is markup, and control characters are spelled out."""
    return escape(visible(text))


def markup(text: model.Inline, tone: model.Tone = "") -> str:
    """Return a text with its tones as Rich's markup."""
    return "".join(_styled(literal(part.text), part.tone or tone) for part in model.spans(text))


def print_document(document: model.Document, stream: TextIO) -> None:
    """Print a document."""
    console = open_console(stream)
    if document.kicker:
        console.print(f"\n{markup(document.kicker)}")
    if document.title:
        lead = f": {markup(document.lead)}" if document.lead else ""
        console.print(f"{_styled(f'[bold]{literal(document.title)}[/]', document.tone)}{lead}")
    print_blocks(console, document.blocks)


def print_blocks(console: Console, blocks: Iterable[model.Block]) -> None:
    """Print blocks, one below the other; figures and cards are on pages only."""
    for block in blocks:
        _print(console, block)


def _print(console: Console, block: model.Block) -> None:
    match block:
        case model.Sentence():
            mark, tone = _LEVELS.get(block.level, ("", ""))
            soft_wrap = True if block.level == "command" else None  # None: as the console does
            console.print(f"{mark}{markup(block.text, tone)}", soft_wrap=soft_wrap)
        case model.Bullets():
            for item in block.items:
                indent = "" if block.level else "  "
                _print(console, model.Sentence((*model.spans(indent), *model.spans(item)), block.level))
        case model.Facts():
            for name, value in block.items:
                console.print(f"[dim]{literal(name)}[/] {markup(value)}")
        case model.Code():
            if block.language:
                print_sql(console, block.text)
            else:  # only the terminal breaks the lines of what is copied
                console.print(f"  {literal(block.text)}", soft_wrap=True)
        case model.Table():
            show(console, _grid(block), block.keep)
        case model.Section():
            console.print(f"\n{markup(block.title, 'strong')}")
            print_blocks(console, block.blocks)
        case model.Columns():
            print_blocks(console, block.blocks)
        case model.Only():
            print_blocks(console, block.blocks if "terminal" in block.media else ())
        case model.Questions():
            for question in block.items[: block.first]:
                _print_question(console, question)
            if block.first is not None and len(block.items) > block.first:
                counts = f"the first {block.first:,} of {len(block.items):,}"
                console.print(f"\n[dim]{counts}{literal(block.rest)}[/]")
        case model.Figure() | model.Legend() | model.Cards():
            pass  # on pages only


def _print_question(console: Console, item: model.QuestionItem) -> None:
    badge = f"{markup(item.badge)} " if item.badge else ""
    console.print(f"\n{badge}[bold]{literal(item.id)}[/]  [dim]{literal(item.about)}[/]")
    console.print(f"  {literal(item.text)}")
    if item.evidence:
        console.print(f"  [dim]evidence: {literal(item.evidence)}[/]")
    for answer in item.answers:
        console.print(f"  {markup(answer.title)}")
        print_sql(console, answer.sql)


def _styled(text: str, tone: model.Tone) -> str:
    style = _STYLES.get(tone, "")
    return f"[{style}]{text}[/]" if style and text else text


def _grid(table: model.Table) -> Grid:
    grid = Grid(
        title=literal(table.title) or None,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        caption_justify="left",
    )
    for position, column in enumerate(table.text_columns.values()):
        if position == 0 or column.kind == "text":
            grid.add_column(literal(column.name), overflow="fold", no_wrap=column.whole)
        else:
            grid.add_column(literal(column.name), justify="right", no_wrap=True)
    for row in table.rows[: table.first]:
        if row is None:
            grid.add_section()
        else:
            grid.add_row(*(_cell(row[position]) for position in table.text_columns))
    rest = "" if table.first is None else and_more(table.rows, table.first)
    grid.caption = _joined(literal(table.caption), literal(f"{rest}: {table.more}") if rest else "")
    return grid


def _joined(caption: str, remark: str) -> str:
    """Return a caption with a remark, as a sentence of its own if the caption is one.

    >>> _joined("A letter is a group.", "and 3 more: --all"), _joined("p: adjusted", "and 3 more: --all")
    ('A letter is a group. And 3 more: --all', 'p: adjusted; and 3 more: --all')
    """
    if caption.endswith(".") and remark:
        return f"{caption} {remark[0].upper()}{remark[1:]}"
    return "; ".join(filter(None, (caption, remark)))


def _cell(cell: model.Cell) -> str:
    return markup(cell) if isinstance(cell, str | tuple | model.Span) else ""


def fits(console: Console, grid: Grid) -> bool:
    """Return whether a table can be printed without wrapping or truncating a cell."""
    room = console.options.update(width=BOUNDLESS)
    return console.measure(grid, options=room).maximum <= console.width


def show(console: Console, grid: Grid, keep: int = 2) -> None:
    """Print a table; if it does not fit, with less padding, then without its last columns, which the caption names.

    Rich truncates names in a table that is too wide. Title and caption are as wide as the page. The first `keep`
    columns are printed in any case.
    """
    if not fits(console, grid):
        grid.padding = (0, 0)
    if not fits(console, grid):
        for column in grid.columns:
            # "B − A", "95 %" and "backbone | pipeline" stay in one line
            column.header = re.sub(r"(?<![−|]) (?![−%|])", "\n", str(column.header))
    left_out: list[str] = []
    while not fits(console, grid) and len(grid.columns) > keep:
        left_out.insert(0, str(grid.columns.pop().header).replace("\n", " "))
    if left_out:
        grid.caption = _joined(str(grid.caption), f"a wider terminal also shows {', '.join(left_out)}")
    # Rich wraps both to the width of the table
    title = grid.title
    caption = grid.caption
    grid.title = None
    grid.caption = None
    if title:
        console.print(f"\n[bold]{title}[/]")
    with console.capture() as printed:
        console.print(grid)
    lines = printed.get().removesuffix("\n").split("\n")
    # Rich fills the last column with blanks, which a file or a pipe would keep.
    console.out(
        "\n".join(lines if console.is_terminal else [line.rstrip() for line in lines]), highlight=False
    )
    if caption:
        console.print(caption, style="table.caption")


def print_sql(console: Console, sql: str | None, other: str | None = None) -> None:
    """Print a SQL, indented; on a terminal in colours.

    What the other SQL does not have is underlined: on a terminal itself, elsewhere by a line of `^` below it.
    """
    if sql is None:
        console.print("    [dim]none[/]")
        return
    tokens = compared_tokens(sql, other)
    text = "".join(token for token, _ in tokens)
    marks = "".join(("^" if changed else " ") * len(token) for token, changed in tokens)
    if console.is_terminal:
        from rich.syntax import Syntax  # imports Pygments

        coloured = Syntax("", "sql", background_color="default", word_wrap=True).highlight(text)
        coloured.rstrip()
        for run in re.finditer(r"\^+", marks):
            coloured.stylize("bold underline", *run.span())
        console.print(Padding(coloured, (0, 0, 0, 4)))
        return
    start = 0
    for line in text.split("\n"):
        console.print(f"    {line}", markup=False)
        if below := marks[start : start + len(line)].rstrip():
            console.print(f"    {below}", markup=False)
        start += len(line) + 1
