"""From the words of a question to the query that it seems to ask for.

Words are linked to tables and columns by their names, and to values by the samples of the prompt, spelled exactly as
there. Each word is used by one clause at most; the columns that no other clause has used are selected. Columns are
written without their tables, and texts are compared exactly, unless a query that was tried has shown that this fails.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from tasks.backbone.offline.prompt import Prompt, PromptSchema, stem, stems_of
from tasks.core.records import ColumnName
from tasks.database.dialects import quoted_if_needed

_TOKEN = re.compile(
    r"\"(?P<double>[^\"\n]+)\"|(?<!\w)'(?P<single>[^'\n]+)'(?!\w)"
    r"|(?P<number>(?<!\w)\d+(?:\.\d+)?(?![\w-]))|(?P<word>\w+(?:[-/.]\w+)*)|(?P<mark>[^\w\s])"
)
_NAME = r"((?<!`)`[^`\n]+`|\"[^\"\n]+\"|\b\w++)"
_TEST = re.compile(
    rf"{_NAME}\s*+(<=|>=|<>|!=|=|<|>|\bLIKE\b|\bIS\b)\s*+('[^'\n]*'|-?\d+(?:\.\d+)?\b|(?:NOT )?NULL\b)"
)
_MEANS = re.compile(r"\s(?:refers? to|is the|means)\s")
_EXTREME = re.compile(r"\b(?P<function>MAX|MIN)\((?P<column>[^()]{1,100})\)")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_DATE = re.compile(r"\d{4}-\d\d")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STOP = _words(
    "a an the of is are was were be do does did have has had and or in on at to for from by with what which who whom "
    "whose where when how many much that this those there it its their list show find give return tell all any each "
    "every per as than not no more less most least only i we you our us me my"
)
_AGGREGATES = {
    "average": "AVG", "mean": "AVG", "maximum": "MAX", "minimum": "MIN", "total": "SUM", "sum": "SUM",
}  # fmt: skip
_OPERATORS = {
    ">=": _words("least"),
    "<=": _words("most"),
    ">": _words("more greater larger higher older longer above over after exceeding later taller heavier"),
    "<": _words("less fewer smaller lower younger shorter below under before earlier lighter"),
    "!=": _words("not except excluding other"),
}
_TOP = _words(
    "most highest largest biggest greatest oldest longest latest tallest heaviest best newest fastest"
)
_BOTTOM = _words("lowest smallest fewest youngest shortest earliest lightest cheapest worst slowest")
_SORTED = _words("sorted sort ordered ranked")
_DESCENDING = _words("descending decreasing")
_DISTINCT = _words("different distinct unique once")
_MAX_WORDS = 6
"""Words of a sample value that is looked for."""
_REACH = 4
"""Tokens over which a word such as "more" or "oldest", and a column's name, apply to what follows."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number, mark or quoted text of a question."""

    text: str
    kind: str  # "word", "number", "mark", or "single" or "double" for a quoted text

    @property
    def stem(self) -> str:
        """Stem of a word that may name something, "" of others."""
        return stem(self.text) if self.kind == "word" and self.text.lower() not in _STOP else ""


@dataclass(frozen=True, slots=True)
class Mention:
    """The tokens from `start` up to `end` that name a table or a column."""

    start: int
    end: int
    table: str
    column: ColumnName | None
    score: float  # words of the name that are there, less a part of those that are not


@dataclass(frozen=True, slots=True)
class Value:
    """The tokens from `start` up to `end` that are a value."""

    start: int
    end: int
    text: str
    is_number: bool


def tokenize(text: str) -> tuple[Token, ...]:
    """Split a question into its tokens.

    >>> [token.text for token in tokenize("Who won the 'Lost Cup' in 2014?")]
    ['Who', 'won', 'the', 'Lost Cup', 'in', '2014', '?']
    """
    return tuple(Token(match[kind], kind) for match in _TOKEN.finditer(text) if (kind := match.lastgroup))


@dataclass
class Reader:
    """A reader of one question; it keeps the words, columns and tables that the clauses of the query have used."""

    prompt: Prompt
    used: set[int] = field(default_factory=set)  # indices of tokens
    query_columns: list[ColumnName] = field(default_factory=list)
    query_tables: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schema: PromptSchema = self.prompt.schema
        self.tokens = tokenize(self.prompt.question)
        self.words = [token.text.lower() for token in self.tokens]
        self.qualifies = any("ambiguous" in attempt.result.lower() for attempt in self.prompt.attempts)
        self.is_loose = any(attempt.is_empty for attempt in self.prompt.attempts)

    def query(self) -> str:
        """Return the query of the question, "" without a question or a schema."""
        if not self.tokens or not self.schema.columns:
            return ""
        # Each word is used by one clause at most, so the order of these calls matters.
        order_by = self._order_by()
        where = " AND ".join(map(_combined_tests, self._conditions().values()))
        group_by = self._group_by()
        terms = [group_by, *self._select()] if group_by else self._select()
        selected = list(dict.fromkeys(terms)) or [self._sql(self.schema.name_of(self.subject))]
        if selected == [group_by]:  # the query returns the groups alone
            selected.append("COUNT(*)")
        if order_by.startswith("COUNT") and not group_by:  # to sort by a count, there must be groups
            group_by = next((term for term in selected if "(" not in term), "")  # no aggregate
        distinct = "" if _DISTINCT.isdisjoint(self.words) else "DISTINCT "
        clauses = {"FROM": self._from(), "WHERE": where, "GROUP BY": group_by, "ORDER BY": order_by}
        texts = (f"{name} {text}" for name, text in clauses.items() if text)
        return " ".join([f"SELECT {distinct}{', '.join(selected)}", *texts])

    def _name(self, *parts: str) -> str:
        return ".".join(quoted_if_needed(part, self.schema.dialect) for part in parts)

    def _sql(self, column: ColumnName, function: str = "") -> str:
        """Return a column, or an aggregate of it, as SQL; the query names it from now on."""
        self.query_columns.append(column)
        name = self._name(column.table, column.column) if self.qualifies else self._name(column.column)
        return f"{function}({name})" if function else name

    def _from(self) -> str:
        """Return the FROM clause; a table that no foreign key leads to is left out."""
        self.query_tables.append(self.subject)
        clause = self._name(self.subject)
        mentioned = [mention.table for mention in self.mentions if mention.column is None]
        for needed_table in (*mentioned, *(column.table for column in self.query_columns)):
            for join in self.schema.path(self.query_tables, needed_table):
                child = self._name(join.child.table, join.child.column)
                parent = self._name(join.parent.table, join.parent.column)
                has_child = join.child.table in self.query_tables
                new_table = join.parent.table if has_child else join.child.table
                self.query_tables.append(new_table)
                clause += f" JOIN {self._name(new_table)} ON {child} = {parent}"
        return clause

    @cached_property
    def mentions(self) -> list[Mention]:
        """Mentions of tables and of columns in the order of the question; of those that overlap, only the best."""
        tables = [found for table in self.schema.tables for found in self._find_name(stems_of(table), table)]
        columns = [found for column in self.schema.columns for found in self._find_column(column)]
        linked = self.prompt.linked
        mentioned_tables = {found.table for found in tables}
        tables.sort(key=lambda found: -found.score)
        # of columns with the same score, those that the prompt links come first, then those of mentioned tables
        columns.sort(
            key=lambda found: (-found.score, found.column not in linked, found.table not in mentioned_tables)
        )
        # Words that are a table's name are no column's name.
        table_spans = [(table.start, table.end) for table in tables]
        columns = [column for column in columns if (column.start, column.end) not in table_spans]
        best = (*_without_overlaps(tables), *_without_overlaps(columns))
        return sorted(best, key=lambda mention: mention.start)

    def _find_column(self, column: ColumnName) -> Iterator[Mention]:
        column_stems = [word for word in stems_of(column.column) if word not in stems_of(column.table)]
        yield from self._find_name(column_stems or stems_of(column.column), column.table, column)
        name = column.column.lower()
        phrases = [phrase for phrase, meaning in self._meanings if meaning.strip(" `\"'.").lower() == name]
        for phrase in (*phrases, self.schema.heads.get(column, "")):
            stems = [token.stem for token in tokenize(phrase) if token.stem]
            yield from self._find_name(stems, column.table, column)

    @cached_property
    def _meanings(self) -> list[tuple[str, str]]:
        """The phrases of the evidence with what they mean: "open shops refers to closed IS NULL; ..."."""
        statements = (_MEANS.split(text, maxsplit=1) for text in re.split(r"[;,]", self.prompt.evidence))
        return [(parts[0].strip(), parts[1].strip()) for parts in statements if len(parts) > 1]

    def _find_name(
        self, stems: Sequence[str], table: str, column: ColumnName | None = None
    ) -> Iterator[Mention]:
        """Yield the runs of tokens, with gaps of one at most, that have over half of the `stems` of a name.

        Exactly half of them is enough if the name's last word is one of them, such as "date" for "birth date".
        """
        runs: list[dict[str, int]] = []  # each has the indices of its tokens by stem
        for index, token in enumerate(self.tokens):
            if token.stem and token.stem in stems:
                if not runs or token.stem in runs[-1] or index - max(runs[-1].values()) > 2:
                    runs.append({})
                runs[-1][token.stem] = index
        for run in runs:
            present, missing = len(run), len(stems) - len(run)
            if present > missing or (present == missing and stems[-1] in run):
                start, end = min(run.values()), max(run.values()) + 1
                yield Mention(start, end, table, column, score=present - missing / 4)

    @property
    def subject(self) -> str:
        """The table that is mentioned first, else that of the first column, else the first of the schema."""
        tables = [mention.table for mention in self.mentions if mention.column is None]
        return [*tables, *(mention.table for mention in self.mentions), *self.schema.tables][0]

    def _mention(self, start: int, reach: int = 0) -> Mention | None:
        """Return the first unused mention that begins up to `reach` tokens after a position, columns first."""
        near = [m for m in self.mentions if 0 <= m.start - start <= reach and m.start not in self.used]
        return min(near, key=lambda mention: mention.column is None, default=None)

    def _is_unmentioned(self, column: ColumnName) -> bool:
        """Return whether nothing of a column's table is mentioned."""
        return all(mention.table != column.table for mention in self.mentions)

    def _conditions(self) -> dict[ColumnName, list[str]]:
        """Return the conditions by column: those written in the evidence, then those for values of the question.

        Words whose meaning in the evidence is a condition count as used.
        """
        conditions: dict[ColumnName, list[str]] = {}
        for name, operator, literal in _TEST.findall(self.prompt.evidence):
            if columns := self.schema.find(name.strip('`"')):
                column = min(columns, key=self._is_unmentioned)  # one of a mentioned table, if there is one
                conditions.setdefault(column, []).append(self._test(column, operator, literal))
        for phrase, meaning in self._meanings:
            if _TEST.search(meaning):
                stems = {token.stem for token in tokenize(phrase) if token.stem}
                self.used.update(index for index, token in enumerate(self.tokens) if token.stem in stems)
        for value in self._values():
            in_evidence = f"'{value.text}'" in self.prompt.evidence  # its condition is there already
            owner = None if in_evidence else self._column_of(value)
            if owner:
                self.used.update(range(value.start, value.end))
                conditions.setdefault(owner, []).append(self._condition(owner, value))
        return conditions

    def _test(self, column: ColumnName, operator: str, literal: str) -> str:
        """Return a condition; a text that was not there before is looked for as a part of the value."""
        if self.is_loose and operator == "=" and literal.startswith("'"):
            operator = "LIKE"
            literal = f"'%{literal[1:-1]}%'"
        return f"{self._sql(column)} {operator} {literal}"

    def _owners(self, text: str, *, is_loose: bool = False) -> list[ColumnName]:
        """Return the columns that have a sample value; with `is_loose` also one that contains it in any case."""
        samples = self.schema.samples.items()
        owners = [column for column, texts in samples if text in texts]
        if owners or not is_loose:
            return owners
        return [column for column, texts in samples if any(text.lower() in other.lower() for other in texts)]

    def _values(self) -> Iterator[Value]:
        """Yield the values in the question's unused tokens: samples, quoted texts, numbers, capitalised words."""
        end = 0  # of the value before
        for start, token in enumerate(self.tokens):
            if start >= end and start not in self.used:
                is_literal = token.kind in ("single", "double", "number")  # a quoted text is one token
                size = 1 if is_literal else self._size_of_value(start)
                end = start + size
                if size:
                    text = " ".join(token.text for token in self.tokens[start:end])
                    yield Value(start, end, text, is_number=token.kind == "number")

    def _size_of_value(self, start: int) -> int:
        """Return how many words from a token on are a sample value, else capitalised words; 0 if none is."""
        for size in range(_MAX_WORDS, 0, -1):
            text = " ".join(token.text for token in self.tokens[start : start + size])
            if (size > 1 or self.tokens[start].stem) and self._owners(text):
                return size
        return len(list(takewhile(self._is_name, range(start, len(self.tokens)))))

    def _is_name(self, index: int) -> bool:
        """Whether a word within a sentence is capitalised and names nothing in the schema."""
        token = self.tokens[index]
        is_mentioned = any(mention.start <= index < mention.end for mention in self.mentions)
        return index > 0 and token.stem != "" and token.text[0].isupper() and not is_mentioned

    def _column_of(self, value: Value) -> ColumnName | None:
        """Return the column of a value; None for a number without one.

        It is the nearest column that is mentioned close to the value and can hold it, else any that can hold it, those
        of mentioned tables first, else the subject's name for a text. Any mentioned column can hold a number, but a
        year needs one with years where there is one.
        """
        if not value.is_number:
            holders = self._owners(value.text, is_loose=self.is_loose)
        elif _YEAR.fullmatch(value.text):
            holders = [c for c, texts in self.schema.samples.items() if _holds_years(c, texts)]
            holders.sort(key=lambda column: "year" not in stems_of(column.column))  # those named "year" first
        else:
            holders = []
        any_can_hold = value.is_number and not holders
        # mentions that end some tokens before the value, or with its first token
        near = [m for m in self.mentions if m.column and -1 <= value.start - m.end <= _REACH]
        fitting = [mention for mention in near if any_can_hold or mention.column in holders]
        if fitting:
            nearest = min(fitting, key=lambda mention: abs(value.start - mention.end))
            self.used.update(range(nearest.start, nearest.end))
            return nearest.column
        default = None if value.is_number else self.schema.name_of(self.subject)
        return min(holders, key=self._is_unmentioned, default=default)

    def _condition(self, column: ColumnName, value: Value) -> str:
        """Return the condition that the words before a value ask for, "=" without such a word."""
        words_before = self.words[max(value.start - _REACH, 0) : value.start]
        operators = [sql for sql, words in _OPERATORS.items() if not words.isdisjoint(words_before)]
        operator = operators[0] if operators else "="
        text = value.text.replace("'", "''")
        is_date = any(map(_DATE.match, self.schema.samples[column]))
        if is_date and operator == "=":  # the value may be a year or a month
            return self._test(column, "LIKE", f"'{text}%'")
        return self._test(column, operator, text if value.is_number and not is_date else f"'{text}'")

    def _order_by(self) -> str:
        """Return the terms of ORDER BY and LIMIT, by MAX or MIN in the evidence or a word such as "most"; "" for none.

        Such a word orders by the column mentioned after it, else by age ("oldest", "youngest"), else by the count.
        """
        extreme = _EXTREME.search(self.prompt.evidence)
        if extreme and (columns := self.schema.find(extreme["column"].strip('`" '))):
            direction = " DESC" if extreme["function"] == "MAX" else ""
            column = min(columns, key=self._is_unmentioned)  # one of a mentioned table, if there is one
            return f"{self._sql(column)}{direction} LIMIT 1"
        for index, word in enumerate(self.words):
            if word in _TOP or word in _BOTTOM or word in _SORTED:
                self.used.add(index)
                mention = self._mention(index + 1, reach=_REACH)
                if mention and mention.column:
                    self.used.update(range(index, mention.end))
                ages = self.schema.find("age", self.subject) if word in ("oldest", "youngest") else []
                order_column = mention.column if mention else next(iter(ages), None)
                term = self._sql(order_column) if order_column else "COUNT(*)"
                is_descending = word in _TOP or not _DESCENDING.isdisjoint(self.words)
                limit = "" if word in _SORTED else " LIMIT 1"
                return f"{term} DESC{limit}" if is_descending else f"{term}{limit}"
        return ""

    def _group_by(self) -> str:
        for index, word in enumerate(self.words):
            mention = self._mention(index + 1, 1) if word in ("each", "per") else None
            if mention:
                self.used.update(range(index, mention.end))
                return self._sql(mention.column or self.schema.name_of(mention.table))
        return ""

    def _select(self) -> list[str]:
        """Return the columns and counts that the question names before its first condition, in its order."""
        words = self.words
        # the condition begins with a used word, or a relative word behind the first two, which ask ("how many")
        ends = (n for n in range(2, len(words)) if n in self.used or words[n] in ("whose", "with", "that"))
        terms: list[str] = []
        aggregate = ""  # of the next column
        is_count = False  # whether the next mention, or the question, is counted
        for index, word in enumerate(words[: next(ends, len(words))]):
            is_count = is_count or word in ("many", "number", "count")
            aggregate = _AGGREGATES.get(word, aggregate)
            mention = self._mention(index)
            if mention and (mention.column or is_count):
                terms.append(self._sql(mention.column, aggregate) if mention.column else "COUNT(*)")
                aggregate = ""
                is_count = False
        return [*terms, "COUNT(*)"] if is_count else terms


def _holds_years(column: ColumnName, samples: Sequence[str]) -> bool:
    return "year" in stems_of(column.column) or all(map(_DATE.match, samples or [""]))


def _combined_tests(tests: Sequence[str]) -> str:
    """Join the tests of one column: it has one of several values, or lies between two."""
    equal = len(tests) > 1 and all(" = " in test for test in tests)
    return f"({' OR '.join(tests)})" if equal else " AND ".join(tests)


def _without_overlaps(mentions: Sequence[Mention]) -> list[Mention]:
    """Return the mentions without those that overlap an earlier one."""
    apart: list[Mention] = []
    for mention in mentions:
        if all(mention.end <= other.start or other.end <= mention.start for other in apart):
            apart.append(mention)
    return apart
