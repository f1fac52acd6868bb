"""Whether the official Spider evaluator's parser reads a SQL: its grammar of 2018, with its limits.

What it does not read matches nothing there, whatever it means: INNER JOIN, an alias without AS, `<>`, quoted names,
functions, CASE, a column that does not exist. A deviation: it splits words with nltk; the words here are split at
blanks and signs, which is the same on SQL.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.database.schema import Schema

CLAUSE_WORDS = frozenset(
    ("select", "from", "where", "group", "order", "limit", "intersect", "union", "except")
)
JOIN_WORDS = frozenset(("join", "on", "as"))
OPERATORS = frozenset(("not", "between", "=", ">", "<", ">=", "<=", "!=", "in", "like", "is", "exists"))
AGGREGATES = frozenset(("none", "max", "min", "count", "sum", "avg"))
ARITHMETIC = frozenset(("none", "-", "+", "*", "/"))
_WORD = re.compile(r"__text\d+__|>=|<=|!=|[(),;=<>!*]|[^\s(),;=<>!*]+")


class UnreadableError(Exception):
    """The official parser stops here."""


def official_parser_reads(sql: str, schema: Schema) -> bool:
    """Return whether the official parser reads a SQL to its end.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("Pet", (Column("age"), Column("name"))),), dialect="sqlite")
    >>> [official_parser_reads(sql, schema) for sql in (
    ...     "SELECT T1.name FROM Pet AS T1 WHERE T1.age >= 3", "SELECT name FROM Pet AS T1 WHERE age <> 3",
    ...     "SELECT T1.name FROM pet T1", "SELECT size FROM pet")]
    [True, False, False, False]
    """
    try:
        words = _words(sql)
        columns = {t.name.lower(): frozenset(c.name.lower() for c in t.columns) for t in schema.tables}
        aliases = {words[i + 1]: words[i - 1] for i, word in enumerate(words) if word == "as"}
        if not words or aliases.keys() & columns.keys():
            return False
        _Parser(words, columns, {**aliases, **{name: name for name in columns}}).query(0)
    except (UnreadableError, IndexError, KeyError, ValueError, RecursionError):
        return False
    return True


def _words(sql: str) -> list[str]:
    parts = sql.replace("'", '"').split('"')
    if len(parts) % 2 == 0:
        raise UnreadableError
    text = "".join(f"__text{i}__" if i % 2 else part for i, part in enumerate(parts))
    words = [f'"{parts[int(w[6:-2])]}"' if w.startswith("__text") else w.lower() for w in _WORD.findall(text)]
    joined: list[str] = []
    for word in words:  # "> =" is read as ">="
        if word == "=" and joined and joined[-1] in ("!", ">", "<"):
            joined[-1] += "="
        else:
            joined.append(word)
    return joined


@dataclass(frozen=True, slots=True)
class _Parser:
    """Recursive descent; every method takes a position and returns the one behind what it has read."""

    words: list[str]
    columns: Mapping[str, frozenset[str]] = field(repr=False)
    tables: Mapping[str, str] = field(repr=False)

    def at(self, i: int, *wanted: str) -> bool:
        return i < len(self.words) and self.words[i] in wanted

    def demand(self, i: int, word: str) -> int:
        if self.words[i] != word:
            raise UnreadableError
        return i + 1

    def ends_clause(self, i: int) -> bool:
        return self.at(i, *CLAUSE_WORDS, ")", ";")

    def query(self, i: int) -> int:
        block = self.at(i, "(")
        end, tables = self.sources(i)
        self.selected(i + block, tables)
        i = end
        if self.at(i, "where"):
            i = self.conditions(i + 1, tables)
        i = self.listed(i, "group", tables)
        if self.at(i, "having"):
            i = self.conditions(i + 1, tables)
        i = self.listed(i, "order", tables)
        if self.at(i, "limit"):
            i += 2
        i = self.semicolons(i)
        if block:
            i = self.demand(i, ")")
        i = self.semicolons(i)
        if self.at(i, "intersect", "union", "except"):
            i = self.query(i + 1)
        return i

    def semicolons(self, i: int) -> int:
        while self.at(i, ";"):
            i += 1
        return i

    def sources(self, i: int) -> tuple[int, list[str]]:
        i, tables = self.words.index("from", i) + 1, []
        while i < len(self.words):
            block = self.at(i, "(")
            i += block
            if self.at(i, "select"):
                i = self.query(i)
            else:
                i += self.at(i, "join")
                tables.append(self.tables[self.words[i]])
                if tables[-1] not in self.columns:
                    raise UnreadableError
                i += 3 if self.at(i + 1, "as") else 1
            if self.at(i, "on"):
                i = self.conditions(i + 1, tables)
            if block:
                i = self.demand(i, ")")
            if self.ends_clause(i):
                break
        return i, tables

    def selected(self, i: int, tables: list[str]) -> None:
        i = self.demand(i, "select")
        i += self.at(i, "distinct")
        while i < len(self.words) and self.words[i] not in CLAUSE_WORDS:
            i = self.value_unit(i + self.at(i, *AGGREGATES), tables)
            i += self.at(i, ",")

    def listed(self, i: int, word: str, tables: list[str]) -> int:
        if not self.at(i, word):
            return i
        i = self.demand(i + 1, "by")
        while i < len(self.words) and not self.ends_clause(i):
            i = self.value_unit(i, tables) if word == "order" else self.column_unit(i, tables)
            i += word == "order" and self.at(i, "desc", "asc")
            if not self.at(i, ","):
                break
            i += 1
        return i

    def conditions(self, i: int, tables: list[str]) -> int:
        while i < len(self.words):
            i = self.value_unit(i, tables)
            i += self.at(i, "not")
            if self.words[i] not in OPERATORS:
                raise UnreadableError
            between = self.at(i, "between")
            i = self.value(i + 1, tables)
            if between:
                i = self.value(self.demand(i, "and"), tables)
            if self.ends_clause(i) or self.at(i, *JOIN_WORDS):
                break
            i += self.at(i, "and", "or")
        return i

    def value(self, start: int, tables: list[str]) -> int:
        block = self.at(start, "(")
        i = start + block
        if self.words[i] == "select":
            i = self.query(i)
        elif '"' in self.words[i]:
            i += 1
        else:
            try:
                float(self.words[i])
                i += 1
            except ValueError:
                while not (self.ends_clause(i) and not self.at(i, ";")) and i < len(self.words):
                    if self.at(i, ",", "and", *JOIN_WORDS):
                        break
                    i += 1
                _Parser(self.words[start:i], self.columns, self.tables).column_unit(0, tables)
        return self.demand(i, ")") if block else i

    def value_unit(self, i: int, tables: list[str]) -> int:
        block = self.at(i, "(")
        i = self.column_unit(i + block, tables)
        if self.at(i, *ARITHMETIC):
            i = self.column_unit(i + 1, tables)
        return self.demand(i, ")") if block else i

    def column_unit(self, i: int, tables: list[str]) -> int:
        block = self.at(i, "(")
        i += block
        if self.words[i] in AGGREGATES:
            i = self.demand(i + 1, "(")
            return self.demand(self.column(i + self.at(i, "distinct"), tables), ")")
        i = self.column(i + self.at(i, "distinct"), tables)
        return self.demand(i, ")") if block else i

    def column(self, i: int, tables: list[str]) -> int:
        word = self.words[i]
        if word != "*":
            if "." in word:
                alias, name = word.split(".")
                known = name in self.columns[self.tables[alias]]
            else:
                known = any(word in self.columns[table] for table in tables)
            if not known:
                raise UnreadableError
        return i + 1
