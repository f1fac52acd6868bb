"""Demonstrations of entity linking: training questions aligned with what their SQL uses (DAC, section 3.2).

The paper takes alignments that people annotated for Spider; ours come from the training SQL itself, so that any
benchmark has them: names, parts of names and values of the SQL are looked for in its question.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tasks.core.dac_records import AlignedToken
from tasks.core.records import ColumnName, Demonstration
from tasks.database.schema import Schema
from tasks.retrieval.name_matching import QuestionWords, name_words, question_tokens
from tasks.sql.elements import used_elements
from tasks.sql.parsing import parse
from tasks.sql.resolution import resolve

if TYPE_CHECKING:
    from sqlglot import exp

COVERED = 0.8
"""Share of its SQL's columns that a demonstration of entity linking has to name to be chosen first."""


@dataclass(frozen=True)
class GroundedDemonstration:
    """A training question with its SQL and the database that both are about.

    What takes time is computed when a prompt needs it, so that restoring results needs none of it.
    """

    question: str
    sql: str
    # the full schema of its database, without sample values; None where that is not known
    database: Schema | None = None
    evidence: str = ""  # part of the question where it is shown; "" where it is not

    @property
    def identity(self) -> Mapping[str, Any]:
        """What schema and tokens follow from; a change of how needs a new version of the stages that show them."""
        digest = self.database.digest if self.database else None
        return {"question": self.question, "sql": self.sql, "database": digest, "evidence": self.evidence}

    @cached_property
    def schema(self) -> Schema | None:
        """The tables that the SQL reads; None where the database is not known."""
        if self.database is None:
            return None
        return self.database.limited_to(used_elements(self.sql, self.database).tables)

    @cached_property
    def tokens(self) -> tuple[AlignedToken, ...]:
        """The tokens of question and evidence with what they mean in the SQL; () where the database is not known."""
        return (
            align(whole_question(self.question, self.evidence), self.sql, self.database)
            if self.database
            else ()
        )

    @cached_property
    def coverage(self) -> float:
        """Share of the columns that the SQL uses, otherwise than to join, which the tokens name; 0..1.

        Of a SQL that uses none: 1 where a token names a table. 0 where the database is not known.
        """
        if self.database is None:
            return 0.0
        used = set(used_elements(self.sql, self.database).columns)
        if not used:
            return float(any(one.type for one in self.tokens))
        named = {ColumnName(one.table, one.column) for one in self.tokens if one.column}
        return len(used & named) / len(used)


def ground(
    demonstrations: Iterable[Demonstration], schemas: Mapping[str, Schema]
) -> tuple[GroundedDemonstration, ...]:
    """Return the demonstrations with the schemas of their databases.

    Leaks are already out of them. One of a database without a schema here comes back without it.
    """
    return tuple(
        GroundedDemonstration(one.question, one.sql, schemas.get(one.database_id), one.evidence)
        for one in demonstrations
    )


def whole_question(question: str, evidence: str) -> str:
    """Return the question with its evidence behind it, as entity linking takes them: one text."""
    return f"{question}\n{evidence}" if evidence else question


def best_covered(
    demonstrations: Iterable[GroundedDemonstration], count: int
) -> tuple[GroundedDemonstration, ...]:
    """Return the first `count` demonstrations that name most of their columns, then the others, in their order.

    Alignments that name few of the columns teach a model to answer "null". Those behind are looked at only as far as
    needed.
    """
    covered: list[GroundedDemonstration] = []
    others: list[GroundedDemonstration] = []
    for one in demonstrations:
        if len(covered) == count:
            break
        (covered if one.coverage >= COVERED else others).append(one)
    return (*covered, *others)[:count]


def align(question: str, sql: str, schema: Schema) -> tuple[AlignedToken, ...]:
    """Return a question's tokens with what they mean in its SQL.

    Looked for in this order, the longest first, each token once: values that the SQL compares a column with, names of
    the columns it uses otherwise than to join, names of its tables, all of these wherever they stand, then parts of
    names. What a count, a sum or an average is compared with is no value of the column.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("singer", (Column("first_name"), Column("country"))),), dialect="sqlite")
    >>> found = align("Names of singers from France", "SELECT first_name FROM singer WHERE country = 'France'", schema)
    >>> [(one.token, one.schema, one.type) for one in found if one.type]
    [('Names', 'singer.first_name', 'col'), ('singers', 'singer', 'tbl'), ('France', 'singer.country', 'val')]
    """
    words = QuestionWords.of(question_tokens(question))
    aligned = [AlignedToken(token) for token in words.tokens]
    free = set(range(len(aligned)))

    def link(span: range | None, meaning: AlignedToken) -> bool:
        for place in span or ():
            aligned[place] = replace(meaning, token=words.tokens[place])
            free.discard(place)
        return span is not None

    def link_all(find: Callable[[str, set[int]], range | None], text: str, meaning: AlignedToken) -> bool:
        found = link(find(text, free), meaning)
        while found and link(find(text, free), meaning):
            pass
        return found

    used = used_elements(sql, schema)
    compared = sorted(_compared(sql, schema), key=lambda value: -len(value.text))
    for value in compared:
        meaning = AlignedToken("", value.column.table, value.column.column, "val")
        link_all(words.find_text, value.text, meaning)
    names = [AlignedToken("", column.table, column.column, "col") for column in used.columns]
    names += [AlignedToken("", table, "", "tbl") for table in used.tables]
    names.sort(key=lambda one: (-len(name_words(_name(one))), one.type == "tbl"))
    unfound = [one for one in names if not link_all(words.find_name, _name(one), one)]
    for one in unfound:
        link(words.find_part(_name(one), free), one)
    return tuple(aligned)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A value in a SQL and the column that it is compared with."""

    column: ColumnName
    text: str


def _compared(sql: str, schema: Schema) -> Iterator[_Compared]:
    from sqlglot import exp

    tree = parse(sql, schema.dialect).tree
    found = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if tree is None or found is None:
        return
    spelled = {(name.table.lower(), name.column.lower()): name for name in schema.column_names}
    columns = {id(node): spelled[home] for node, home in found.columns if home in spelled}
    unknown = {id(node) for node, home in found.columns if home is None}
    for predicate in tree.find_all(exp.Predicate):
        inside = list(predicate.walk(prune=lambda node: isinstance(node, exp.Query)))
        homes = {columns[id(node)] for node in inside if id(node) in columns}
        if len(homes) != 1 or isinstance(predicate, exp.Connector) or any(_computes(node) for node in inside):
            continue
        for node in inside:
            # in SQLite a name in double quotes that means no column is a string
            quoted = isinstance(node, exp.Column) and id(node) in unknown and node.this.args.get("quoted")
            if isinstance(node, exp.Literal) or quoted:
                yield _Compared(next(iter(homes)), node.name.strip("%"))


def _computes(node: "exp.Expr") -> bool:
    """Whether the result of an aggregate is no value of its column: of all but MIN and MAX."""
    from sqlglot import exp

    return isinstance(node, exp.AggFunc) and not isinstance(node, exp.Min | exp.Max)


def _name(meaning: AlignedToken) -> str:
    return meaning.column or meaning.table
