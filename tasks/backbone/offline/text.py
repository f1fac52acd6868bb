"""A question as tokens with its mentions, and the bookkeeping of which words have been explained."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tasks.backbone.offline.evidence import Hint
from tasks.backbone.offline.joins import distance
from tasks.backbone.offline.linking import ColumnMention, TableMention
from tasks.backbone.offline.naming import KEY_STEMS, NAME_STEMS, key_column, name_columns
from tasks.backbone.offline.schema import PromptSchema, SchemaTable
from tasks.backbone.offline.words import Token
from tasks.records import ColumnName

_PLACEHOLDER = {"quoted": "<v>", "number": "<n>"}
_SENTENCE_END = frozenset(".?!;")


@dataclass(frozen=True, slots=True)
class Found:
    """Where a pattern was found, in tokens, and its match."""

    start: int
    end: int
    match: re.Match[str]


@dataclass(slots=True)
class QuestionText:
    """One question over one schema.

    Attributes:
        plain: the tokens in lower case with one blank between, quoted ones as `<v>`, numbers as `<n>`.
        preferred: columns that the prompt or its evidence points at; they win ties.
        hints: what the evidence says of the question.
        used: indexes of tokens that a clause has explained already.
    """

    tokens: tuple[Token, ...]
    schema: PromptSchema
    columns: tuple[ColumnMention, ...]
    tables: tuple[TableMention, ...]
    preferred: frozenset[ColumnName]
    hints: tuple[Hint, ...] = ()
    plain: str = ""
    used: set[int] = field(default_factory=set)
    _offsets: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pieces, length = [], 0
        for index, token in enumerate(self.tokens):
            piece = _PLACEHOLDER.get(token.kind, token.lower)
            self._offsets[length] = index
            pieces.append(piece)
            length += len(piece) + 1
        self.plain = " ".join(pieces)

    def find(self, pattern: str) -> Iterator[Found]:
        """Yield the places of a pattern that begin and end between tokens, from left to right."""
        for match in re.finditer(rf"(?:(?<= )|^)(?:{pattern})(?= |$)", self.plain):
            end = self._offsets.get(match.end() + 1, len(self.tokens))
            yield Found(self._offsets[match.start()], end, match)

    def between(self, start: int, end: int) -> str:
        """Return a part of `plain`."""
        return " ".join(
            _PLACEHOLDER.get(token.kind, token.lower) for token in self.tokens[max(start, 0) : end]
        )

    def use(self, start: int, end: int) -> None:
        """Mark tokens as explained."""
        self.used.update(range(start, end))

    def free(self, start: int, end: int) -> bool:
        """Whether none of the tokens is explained yet."""
        return not any(index in self.used for index in range(start, end))

    def sentence_end(self, index: int) -> int:
        """Return the index of the mark that ends the sentence of a token."""
        for position in range(index, len(self.tokens)):
            if self.tokens[position].kind == "mark" and self.tokens[position].text in _SENTENCE_END:
                return position
        return len(self.tokens)

    def columns_in(self, start: int, end: int, *, free: bool = True) -> list[ColumnMention]:
        """Return the column mentions that begin in a range."""
        return [m for m in self.columns if start <= m.start < end and (not free or self.free(m.start, m.end))]

    def is_participle(self, index: int) -> bool:
        """Whether a token says what was done to something: founded, held."""
        lower = self.tokens[index].lower
        return lower.endswith("ed") or lower in (
            "held",
            "won",
            "born",
            "made",
            "sold",
            "built",
            "led",
            "taught",
        )

    def names_schema(self, index: int) -> bool:
        """Whether a token is part of a mention that says most of a name."""
        spans = [(m.start, m.end, m.score) for m in self.columns] + [
            (m.start, m.end, m.score) for m in self.tables
        ]
        return any(start <= index < end and score >= 0.75 for start, end, score in spans)

    def table_at(self, index: int, *, reach: int = 2) -> TableMention | None:
        """Return the table mention that begins at a token or shortly after it."""
        return next((m for m in self.tables if index <= m.start <= index + reach), None)

    @property
    def subject(self) -> str:
        """The table that the question is about: the first one mentioned, else that of the first column."""
        full = [m for m in self.tables if m.score >= 0.9] or list(self.tables)
        if full:
            return self.table_of(full[0])
        if self.columns:
            return self.columns[0].columns[0].table
        return self.schema.tables[0].name if self.schema.tables else ""

    def table_of(self, mention: TableMention) -> str:
        """Choose among the tables of a mention: the one with the shortest name, then the first."""
        return min(
            mention.tables, key=lambda table: (len(table), self.schema.tables.index(self._table(table)))
        )

    def resolve(self, mention: ColumnMention, near: str = "") -> ColumnName:
        """Choose among the columns of a mention by the tables said around it.

        Args:
            mention: what to choose for.
            near: table that wins where nothing nearer is said; default: the subject.
        """
        if len(mention.columns) == 1:
            return mention.columns[0]
        subject = near or self.subject
        said = {table for other in self.tables for table in other.tables}
        after = self.table_at(mention.end, reach=3)
        if after and any(
            t.lower in (",", "and", "who", "that", "with") for t in self.tokens[mention.end : after.start]
        ):
            after = None
        before = next(
            (m for m in reversed(self.tables) if mention.start - 2 <= m.end - 1 < mention.start), None
        )

        def score(name: ColumnName) -> float:
            total = 0.0
            if name in self.preferred:
                total += 4.0
            if after and name.table in after.tables:
                total += 3.0
            if before and name.table in before.tables:
                total += 3.3
            if name.table == subject:
                total += 2.0
            if name.table in said:
                total += 1.5
            total -= min(distance(self.schema, subject, name.table), 4.0) * 0.3
            column = self.schema.column(name)
            if set(column.stems) - KEY_STEMS <= set(self._table(name.table).stems):
                total += 0.4
            return total

        return max(mention.columns, key=score)

    def _table(self, name: str) -> SchemaTable:
        table = self.schema.table(name)
        assert table is not None
        return table

    def name_columns(self, table: str) -> tuple[ColumnName, ...]:
        """Return what a row of a table is called: its name or title, else first and last name, else its key."""
        return name_columns(self.schema, table)

    def is_name(self, column: ColumnName) -> bool:
        """Whether a column names the rows of its table, so that its key stands for it in a group."""
        stems = self.schema.column(column).stems
        return bool(stems) and stems[-1] in NAME_STEMS and column in self.name_columns(column.table)

    def key(self, table: str) -> ColumnName | None:
        """Return the column that identifies a table's rows."""
        return key_column(self.schema, table)
