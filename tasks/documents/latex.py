r"""Tables in LaTeX, with the rules of the package booktabs (`\usepackage{booktabs}`)."""

import re
from collections.abc import Iterable, Iterator, Sequence

from tasks.core.wording import MINUS
from tasks.documents.model import Span, Table, plain
from tasks.documents.text import visible

_ACTING = re.compile(rf"[\\&%$#_{{}}~^|<>`{MINUS}]|-(?=-)")
_WORDS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "`": r"\textasciigrave{}", "-": "-{}", MINUS: "$-$",
}  # fmt: skip


def latex(table: Table, notes: Sequence[str] = ()) -> str:
    """Return a table with its title as the caption and notes below it; nothing in a text acts."""
    columns = [table.columns[place] for place in table.text_places]
    align = "".join("l" if column.kind == "text" else "r" for column in columns)
    return "\n".join((
        r"\begin{table}", r"\centering", rf"\caption{{{_text(table.title)}}}", rf"\begin{{tabular}}{{{align}}}",
        r"\toprule", _row(column.name for column in columns), *_sections(table), r"\bottomrule", r"\end{tabular}",
        *_notes(notes), r"\end{table}",
    )) + "\n"  # fmt: skip


def comments(lines: Iterable[str]) -> str:
    """Return lines as comments, which LaTeX does not print."""
    return "".join(f"% {' '.join(visible(line).split())}\n" for line in lines)


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield r"\par\smallskip\begin{minipage}{\linewidth}\footnotesize"
        yield "\\par\n".join(map(_text, notes))
        yield r"\end{minipage}"


def _sections(table: Table) -> Iterator[str]:
    for section in table.sections:
        yield r"\midrule"
        for row in section:
            cells = (row[place] for place in table.text_places)
            yield _row(plain(cell) if isinstance(cell, str | tuple | Span) else "" for cell in cells)


def _row(cells: Iterator[str]) -> str:
    return " & ".join(map(_text, cells)) + r" \\"


def _text(text: str) -> str:
    return _ACTING.sub(lambda match: _WORDS.get(match[0], f"\\{match[0]}"), visible(text))
