"""A question as tokens with its mentions, and which of its words have been explained."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tasks.backbone.offline.prompt.english import Token
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.question.evidence import Hint
from tasks.backbone.offline.question.mentions import ColumnMention, Mention, TableMention
from tasks.backbone.offline.question.naming import NAME_STEMS, key_column, name_columns
from tasks.backbone.offline.question.query import path
from tasks.core.records import ColumnName

_PLACEHOLDER = {"quoted": "<v>", "number": "<n>"}


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """Where a pattern was found, in tokens, and its match."""

    start: int
    end: int
    match: re.Match[str]


@dataclass(slots=True)
class QuestionText:
    """One question over one schema."""

    tokens: tuple[Token, ...]
    schema: PromptSchema
    columns: tuple[ColumnMention, ...]
    tables: tuple[TableMention, ...]
    preferred: frozenset[ColumnName]  # columns that the prompt or its evidence points at; they win ties
    hints: tuple[Hint, ...] = ()  # what the evidence says of the question
    used: set[int] = field(default_factory=set)  # indexes of tokens that a clause has explained already

    def between(self, start: int, end: int) -> str:
        """Return tokens in lower case with one blank between, quoted ones as `<v>`, numbers as `<n>`."""
        part = self.tokens[max(start, 0) : max(end, 0)]
        return " ".join(_PLACEHOLDER.get(token.kind, token.lower) for token in part)

    @property
    def plain(self) -> str:
        """The whole question as `between` returns it."""
        return self.between(0, len(self.tokens))

    def find(self, pattern: str) -> Iterator[TokenMatch]:
        """Yield the places of a pattern that begin and end between tokens, from left to right."""
        plain, start, place = self.plain, 0, 0
        for match in re.finditer(rf"(?:(?<= )|^)(?:{pattern})(?= |$)", plain):
            start, place = start + plain.count(" ", place, match.start()), match.start()
            yield TokenMatch(start, start + len(match[0].split()), match)

    def use(self, start: int, end: int) -> None:
        """Mark tokens as explained."""
        self.used.update(range(start, end))

    def free(self, start: int, end: int) -> bool:
        """Whether none of the tokens is explained yet."""
        return self.used.isdisjoint(range(start, end))

    def sentence_end(self, index: int) -> int:
        """Return the index of the mark that ends the sentence of a token."""
        marks = (n for n in range(index, len(self.tokens)) if self.tokens[n].text in (".", "?", "!", ";"))
        return next(marks, len(self.tokens))

    def columns_in(self, start: int, end: int, *, free: bool = True) -> list[ColumnMention]:
        """Return the column mentions that begin in a range."""
        return [m for m in self.columns if start <= m.start < end and (not free or self.free(m.start, m.end))]

    @property
    def mentions(self) -> list[Mention]:
        """Every mention, those of tables first."""
        return [*self.tables, *self.columns]

    def names_schema(self, index: int) -> bool:
        """Whether a token is part of a mention that says most of a name."""
        return any(m.start <= index < m.end and m.score >= 0.75 for m in self.mentions)

    def table_at(self, index: int, *, reach: int = 2) -> TableMention | None:
        """Return the table mention that begins at a token or shortly after it."""
        return next((m for m in self.tables if index <= m.start <= index + reach), None)

    def head_before(self, index: int) -> Mention | None:
        """Return the nearest mention before a token that no clause has used, in the same sentence."""
        start = max((n for n in range(index) if self.tokens[n].text in (".", "?")), default=0)
        free = (m for m in self.mentions if isinstance(m, TableMention) or self.free(m.start, m.end))
        before = [m for m in free if start <= m.start and m.end <= index]
        return max(before, key=lambda m: (m.end, isinstance(m, TableMention)), default=None)

    @property
    def subject(self) -> str:
        """The table that the question is about: the first one mentioned, else that of the first column."""
        tables = [m for m in self.tables if m.score >= 0.9] or self.tables
        if tables or not self.columns:
            return self.table_of(tables[0]) if tables else self.schema.tables[0].name
        return self.columns[0].columns[0].table

    def table_of(self, mention: TableMention) -> str:
        """Choose among the tables of a mention: the one with the shortest name, then the first."""
        return min(mention.tables, key=len)

    def resolve(self, mention: ColumnMention, near: str = "") -> ColumnName:
        """Choose among the columns of a mention by the tables said around it, or by a given one."""
        if len(mention.columns) == 1:
            return mention.columns[0]
        subject = near or self.subject
        said = {table for other in self.tables for table in other.tables}
        gaps = ((m, m.start - mention.end, mention.start - m.end) for m in self.tables)
        beside = {
            table for m, behind, before in gaps if 0 <= behind <= 2 or 0 <= before < 2 for table in m.tables
        }

        def score(name: ColumnName) -> float:
            points = (
                4.0 * (name in self.preferred) + 3.0 * (name.table in beside) + 2.0 * (name.table == subject)
            )
            return (
                points
                + 1.5 * (name.table in said)
                - 0.3 * (len(path(self.schema, [subject], name.table)) or 4 * (name.table != subject))
            )

        return max(mention.columns, key=score)

    def name_columns(self, table: str) -> tuple[ColumnName, ...]:
        """Return what a row of a table is called: its name or title, else first and last name, else its key."""
        return name_columns(self.schema, table)

    def is_name(self, column: ColumnName) -> bool:
        """Whether a column names the rows of its table, so that its key stands for it in a group."""
        named = not NAME_STEMS.isdisjoint(self.schema.column(column).stems[-1:])
        return named and column in self.name_columns(column.table)

    def key(self, table: str) -> ColumnName | None:
        """Return the column that identifies a table's rows."""
        return key_column(self.schema, table)

    def group_key(self, mention: Mention) -> ColumnName | None:
        """Return the column to group by for a mention: of tables and of names the key."""
        if isinstance(mention, TableMention):
            return self.key(self.table_of(mention))
        column = self.resolve(mention)
        return self.key(column.table) if self.is_name(column) else column
