"""The blocks of a document: sentences, tables, charts, questions. Renderers decide how they look."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

Tone = Literal["", "strong", "quiet", "code", "good", "better", "bad", "doubt"]
"""How a text is meant: `better` is a win, `good` is in order, `bad` is a loss or an error, `doubt` is a warning."""
Level = Literal["", "note", "warning", "error", "score", "message", "command"]
"""Kind of a sentence: `note` is secondary, `message` is a program's text with its line breaks, `command` is to be
copied as one line."""
Medium = Literal["terminal", "markdown", "page"]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text with a tone."""

    text: str
    tone: Tone = ""
    # "badge" for a label with a background, "letter" for a run's name in a circle
    form: Literal["", "badge", "letter"] = ""
    link: str = ""  # address that a page links it to; "" for none
    help: str = ""  # explanation that a page shows on demand


Inline = str | Span | tuple[str | Span, ...]
"""A text in one line, or the pieces of one."""


def spans(text: Inline) -> Iterator[Span]:
    """Yield the pieces of a text."""
    for part in text if isinstance(text, tuple) else (text,):
        yield Span(part) if isinstance(part, str) else part


def plain(text: Inline) -> str:
    """Return a text without its tones."""
    return "".join(part.text for part in spans(text))


# Charts are values: what is drawn, in percent, counts or points of time; the templates of the pages draw it. `kind`
# names how something is drawn: "a" hollow and vermilion, "b" solid and blue, "before" hollow and grey, "past" grey,
# "now" blue, "worse" vermilion, "doubt" amber: distinguishable in grey and with any colour vision.
MIN_REACH = 20.0
"""Percentage points that a chart of lines shows at least."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value in percent with its interval; `label` stands beside it, `text` is the value as a person reads it."""

    value: float
    low: float
    high: float
    kind: str
    label: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """Shares below each other on the axis of a table's column; `label` says them in words."""

    points: tuple[Point, ...]
    label: str


@dataclass(frozen=True, slots=True)
class TwoSided:
    """A count to the left and one to the right; `reach` is the greatest count of the column."""

    left: int
    right: int
    reach: int
    label: str


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A small line of values, the last of which is emphasised."""

    values: tuple[float, ...]
    kind: str
    label: str


Plot = Points | TwoSided | Sparkline
"""A chart in a table's cell."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Values with intervals on a common axis."""

    points: tuple[Point, ...]  # the values
    label: str  # the chart in words
    sides: tuple[str, ...] = ()  # of differences, what one below 0 and one above 0 mean; () for shares
    # differences up to this one are inside the noise; None: all of them, 0: not drawn
    band: float | None = None

    @property
    def axis(self) -> tuple[float, float]:
        """The ends of the axis: around shares, or equally far to both sides of 0."""
        ends = [end for point in self.points for end in (point.low, point.high)]
        if self.sides:
            reach = max([1.0, *(1.15 * abs(value) for value in (*ends, self.band or 0.0))])
            return -reach, reach
        return max(0.0, min(ends, default=0.0) - 4), min(100.0, max(ends, default=100.0) + 4)


@dataclass(frozen=True, slots=True)
class Parts:
    """Counts as the parts of one bar: name, count and kind."""

    parts: tuple[tuple[str, int, str], ...]
    label: str


@dataclass(frozen=True, slots=True)
class LinePoint:
    """A point of a line, with its interval; `tip` says it in words."""

    x: float
    y: float
    low: float
    high: float
    kind: str
    tip: str = ""
    label: str = ""
    emphasised: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points."""

    points: tuple[LinePoint, ...]
    kind: str
    dashed: bool = False
    marked: bool = True


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a common axis, with percent upwards."""

    lines: tuple[Line, ...]  # the lines
    label: str  # the chart in words
    ticks: tuple[tuple[float, str], ...]  # values of the axis to the right, with their texts
    title: str = ""  # of the axis to the right
    level: LinePoint | None = None  # where a dashed line to the right end begins; None for none
    dense: bool = False  # whether there are too many points for an interval each: the intervals are a band

    @property
    def x(self) -> tuple[float, float]:
        """The ends of the axis to the right: it begins at 0 if it has a title, else at the first point."""
        values = [point.x for line in self.lines for point in line.points]
        low, high = (0.0, 1.05 * max(values)) if self.title else (min(values), max(values))
        return low, high if high > low else low + 1

    @property
    def y(self) -> tuple[float, float]:
        """The ends of the axis upwards: enough around all intervals that noise looks like noise."""
        ends = [end for line in self.lines for point in line.points for end in (point.low, point.high)]
        low, high = min(ends), max(ends)
        spare = max(3.0, (MIN_REACH - (high - low)) / 2)
        low = max(0.0, min(low - spare, 100 - MIN_REACH))
        return low, min(100.0, max(high + spare, low + MIN_REACH))


Chart = Intervals | Parts | Lines
"""A chart with a caption of its own."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    # "text", "number" (aligned right), or "plot" (drawn on pages only)
    kind: Literal["text", "number", "plot"] = "number"
    under: bool = False  # whether a page shows its cells in small type below those of the column before it
    help: str = ""
    text_only: bool = False  # whether pages leave it out, since a plot shows its numbers
    # ends of the axis of plots in percent; None where they have no common axis
    axis: tuple[float, float] | None = None
    # whether a narrow screen shows it beside the name of a row; it folds the columns after the name that are not
    brief: bool = False
    whole: bool = False  # whether a terminal never breaks its cells, which are short


Cell = Inline | Plot


@dataclass(frozen=True, slots=True)
class Table:
    """A table."""

    title: str
    # columns; of plain names, the first is a column of texts, the others of numbers
    headers: tuple[str | Column, ...]
    rows: tuple[tuple[Cell, ...] | None, ...]  # cells; None draws a line between two sections
    caption: str = ""  # a remark below it
    keep: int = 2  # number of first columns that a terminal of any width shows
    # whether a page breaks its rows into cards on a narrow screen, folded if a column is `brief`
    wide: bool = False
    first: int | None = None  # number of rows that a terminal shows; None for all
    more: str = "--json or --html"  # options that show the others
    search: bool = False  # whether a page offers to show only the rows that hold some words

    @property
    def text_columns(self) -> dict[int, Column]:
        """The columns that are not plots, by their positions."""
        return {position: column for position, column in enumerate(self.columns) if column.kind != "plot"}

    @property
    def brief(self) -> bool:
        """Whether a narrow screen folds its rows."""
        return self.wide and any(column.brief for column in self.columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns with their kinds."""
        return tuple(
            header if isinstance(header, Column) else Column(header, "number" if position else "text")
            for position, header in enumerate(self.headers)
        )

    @property
    def sections(self) -> list[list[tuple[Cell, ...]]]:
        """The rows between the lines."""
        parts = groupby(self.rows, lambda row: row is None)
        return [[row for row in rows if row] for line, rows in parts if not line]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A paragraph."""

    text: Inline
    level: Level = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list."""

    items: tuple[Inline, ...]
    level: Level = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values."""

    items: tuple[tuple[str, Inline], ...]


@dataclass(frozen=True, slots=True)
class Code:
    """SQL, or a command if it has no language; a page marks what the `other` SQL does not have."""

    text: str
    language: Literal["", "sql"] = ""
    other: str | None = None


@dataclass(frozen=True, slots=True)
class Legend:
    """What the kinds of a chart mean, on pages only; a kind of "" is a remark."""

    items: tuple[tuple[str, Inline], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, on pages only: its values are in a table or a sentence, too."""

    caption: str
    chart: Chart
    wide: bool = False
    legend: Legend | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """A short answer to a question that a reader has."""

    title: Inline
    blocks: "tuple[Sentence | Code, ...]"
    wide: bool = False  # whether it takes a line of its own


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards beside each other, on pages only."""

    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading, to which links with `#id` lead; a page may fold them, "open" or "closed" at first.

    `notes`: a page sets them apart, since a reader must know them first.
    """

    title: Inline
    blocks: tuple["Block", ...]
    id: str = ""
    fold: Literal["", "open", "closed"] = ""
    notes: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """Blocks that a page sets in columns."""

    blocks: tuple["Block", ...]

    @property
    def figures(self) -> bool:
        """Whether all of them are figures."""
        return all(isinstance(block, Figure) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Only:
    """Blocks for some media only."""

    media: tuple[Medium, ...]
    blocks: tuple["Block", ...]


@dataclass(frozen=True, slots=True)
class AnswerBlock:
    """One of the SQLs of a question."""

    title: Inline  # whose it is, and whether it is right
    sql: str | None  # None: there is none
    other: str | None = None  # another SQL; a page marks what it does not have
    # whether the SQL of each stage is right, by its name
    stages: Mapping[str, bool] = field(default_factory=dict)
    blocks: tuple["Block", ...] = ()  # on pages only
    fold: bool = False  # whether a page shows it only on demand

    @property
    def trail(self) -> list[tuple[str, bool]]:
        """The stages with whether their SQL is right; successive stages that are alike are one, `1_a to 3_c`."""
        trail = []
        for right, group in groupby(self.stages, self.stages.__getitem__):
            names = list(group)
            trail.append((names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", right))
        return trail


@dataclass(frozen=True, slots=True)
class QuestionItem:
    """A question of a benchmark with the answers to it."""

    id: str
    badge: Span | None
    about: str  # its database, difficulty, and the like
    text: str
    evidence: str  # the benchmark's hint; "" for none
    answers: tuple[AnswerBlock, ...]
    # values by which a page filters, by the name of the filter; several are separated by line breaks
    keys: Mapping[str, str] = field(default_factory=dict)
    packed: str = ""  # further facts, compressed, that a page unfolds on demand; "" for none
    link: str = ""  # address of the page that has them instead; "" for none


@dataclass(frozen=True, slots=True)
class Questions:
    """A list of questions; a page shows a table of them beside the one that is read."""

    items: tuple[QuestionItem, ...]
    # labels of the filters of a page by their names, the first that of the badge; {} for a list without a search
    filters: Mapping[str, str] = field(default_factory=dict)
    first: int | None = None  # number of questions that a terminal and Markdown show; None for all
    rest: str = ""  # how to see the others
    note: str = ""  # a remark above the list, on pages only

    def options(self, name: str) -> list[str]:
        """Return the values of a filter."""
        values = {value for item in self.items for value in item.keys.get(name, "").split("\n")}
        return sorted(values - {""})


def reading(*blocks: "Block") -> tuple[Section]:
    """Return the footer that says how a document is read."""
    return (Section("How to read this", blocks),)


Block = (
    Sentence | Bullets | Facts | Table | Code | Figure | Legend | Cards | Section | Columns | Only | Questions
)


@dataclass(frozen=True, slots=True)
class Document:
    """A report."""

    title: str  # the heading, meant as `tone`; "" for none
    blocks: tuple[Block, ...]
    kicker: Inline = ""  # a line above the heading: what the report is about
    lead: Inline = ""  # the most important sentence
    tone: Tone = ""
    footer: tuple[Block, ...] = ()  # how to read it, on pages only
    name: str = ""  # title of a browser's tab; "" for the heading
    packed: str = ""  # texts that several questions share, compressed, on pages only
