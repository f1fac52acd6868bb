"""Demonstrations of entity linking: training questions aligned with what their SQL uses (DAC, section 3.2).

The paper takes alignments that people annotated for Spider; ours come from the training SQL itself, so that any
benchmark has them: names, parts of names and values of the SQL are looked for in its question, by the stems of words.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from tasks.core.records import AlignedToken, ColumnName, Demonstration
from tasks.database.schema import Schema
from tasks.retrieval.demonstrations import FUNCTION_WORDS, HUMP
from tasks.sql.elements import used_elements
from tasks.sql.parsing import parse
from tasks.sql.resolution import resolve

if TYPE_CHECKING:
    from sqlglot import exp

MAX_TOKENS = 8
"""Tokens in a row that one name or value may take."""

_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*\w*|\w+(?:['’]\w+)*|[^\w\s]")
_PIECE = re.compile(r"[^\W_]+")


def question_tokens(text: str) -> tuple[str, ...]:
    """Split a question into words, numbers and marks.

    >>> question_tokens("Which singer's first-name is 'Bob', in 1,990?")
    ('Which', "singer's", 'first', '-', 'name', 'is', "'", 'Bob', "'", ',', 'in', '1,990', '?')
    """
    return tuple(_TOKEN.findall(text))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the stem of an English word, in lower case, by the Snowball stemmer; "" for a mark.

    >>> stem("Airlines"), stem("city") == stem("cities"), stem("singer's"), stem("?")
    ('airlin', True, 'singer', '')
    """
    bare = re.sub(r"['’]s?$", "", word.lower())
    return str(_stemmer().stemWord(bare)) if _PIECE.search(bare) else ""


@lru_cache(maxsize=65536)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a table's or column's name in lower case.

    >>> name_words("raceId"), name_words("Free Meal Count (K-12)"), name_words("first_name")
    (('race', 'id'), ('free', 'meal', 'count', 'k', '12'), ('first', 'name'))
    """
    return tuple(word.lower() for word in _PIECE.findall(HUMP.sub(" ", name)))


class QuestionLinks:
    """The tokens of a question with what they mean so far, ready to be searched for many names.

    A token is linked once: the first meaning that is found for it stays.
    """

    def __init__(self, linked: Iterable[AlignedToken], skipped: Collection[int] = ()) -> None:
        """Index every run of up to `MAX_TOKENS` tokens that are not function words alone.

        Tokens that are linked already, and those at the places in `skipped`, are left as they are.
        """
        self.linked = list(linked)
        self._free = {
            position
            for position, token in enumerate(self.linked)
            if token.type is None and position not in skipped
        }
        tokens = [token.token for token in self.linked]
        stems = [stem(token) for token in tokens]
        significant = [token.lower() not in FUNCTION_WORDS for token in tokens]
        self._by_stems: dict[tuple[str, ...], list[range]] = defaultdict(list)
        self._by_text: dict[str, list[range]] = defaultdict(list)
        for length in range(1, min(MAX_TOKENS, len(tokens)) + 1):
            for start in range(len(tokens) - length + 1):
                if any(significant[start : start + length]):
                    span = range(start, start + length)
                    self._by_stems[tuple(stems[start : start + length])].append(span)
                    self._by_text[_run_together(tokens[start : start + length])].append(span)

    def link_names(self, name: str, meaning: AlignedToken, *, once: bool = False) -> bool:
        """Link a name wherever its words stand, or `once`; return whether it stands anywhere.

        Words are compared by their stems, or all run together (`airportname`, "airport name", and `airport_name` as
        BIRD's evidence spells it). A name that consists of function words alone ("to", "from") is never found.
        """
        words = name_words(name)
        if all(word in FUNCTION_WORDS for word in words):
            return False
        stems = tuple(stem(word) for word in words)
        text = "".join(words)
        spans = (*self._by_stems.get(stems, ()), *self._by_text.get(text, ()))
        return self._link(spans, meaning, once=once)

    def link_part(self, name: str, meaning: AlignedToken) -> None:
        """Link most of a name's words in a row, where they stand first."""
        words = [word for word in name_words(name) if len(word) > 1]
        for length in range(len(words), 0, -1):
            for start in range(len(words) - length + 1):
                if self.link_names(" ".join(words[start : start + length]), meaning, once=True):
                    return

    def link_texts(self, text: str, meaning: AlignedToken) -> bool:
        """Link a text wherever it stands, case and blanks apart; return whether it stands anywhere."""
        return self._link(self._by_text.get(_run_together(question_tokens(text)), ()), meaning)

    def _link(self, spans: Iterable[range], meaning: AlignedToken, *, once: bool = False) -> bool:
        free = [span for span in spans if self._free.issuperset(span)][: 1 if once else None]
        for span in free:
            if self._free.issuperset(span):  # it may share a token with the one before it
                self._free.difference_update(span)
                for position in span:
                    self.linked[position] = replace(meaning, token=self.linked[position].token)
        return bool(free)


def _run_together(tokens: Iterable[str]) -> str:
    """Return tokens as one word, without the underscores of names that are spelled as in a schema."""
    return "".join(tokens).replace("_", "").lower()


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")


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
        if self.database is None:
            return ()
        return align(whole_question(self.question, self.evidence), self.sql, self.database)

    @cached_property
    def coverage(self) -> float:
        """Share, 0..1, of the columns of the SQL that the tokens name; columns used only to join do not count.

        Where the SQL uses no column: 1 if a token names a table, else 0. Where the database is not known: 0.
        """
        if self.database is None:
            return 0.0
        used = set(used_elements(self.sql, self.database).columns)
        if not used:
            return float(any(token.type for token in self.tokens))
        aligned_columns = {ColumnName(token.table, token.column) for token in self.tokens if token.column}
        return len(used & aligned_columns) / len(used)


def ground(
    demonstrations: Iterable[Demonstration], schemas: Mapping[str, Schema]
) -> tuple[GroundedDemonstration, ...]:
    """Return demonstrations, from which leaks have been removed, with the schemas of their databases, if known."""
    return tuple(
        GroundedDemonstration(
            example.question, example.sql, schemas.get(example.database_id), example.evidence
        )
        for example in demonstrations
    )


def whole_question(question: str, evidence: str) -> str:
    """Return the question with its evidence behind it, as entity linking takes them: one text."""
    return f"{question}\n{evidence}" if evidence else question


def best_covered(
    demonstrations: Iterable[GroundedDemonstration], count: int
) -> tuple[GroundedDemonstration, ...]:
    """Return `count` demonstrations: the first whose tokens name most columns of their SQL, then the first others.

    Alignments that name few of the columns teach a model to answer "null". `demonstrations` is read only
    until enough of them name most of their columns.
    """
    covered: list[GroundedDemonstration] = []
    others: list[GroundedDemonstration] = []
    for demonstration in demonstrations:
        if len(covered) == count:
            break
        group = covered if demonstration.coverage >= COVERED else others
        group.append(demonstration)
    return (*covered, *others)[:count]


def align(question: str, sql: str, schema: Schema) -> tuple[AlignedToken, ...]:
    """Return a question's tokens with what they mean in its SQL.

    A token has the first meaning that is found in this order, of several the longest: a value that the SQL compares a
    column with; the name of a column that it uses, not only to join, or of a table; a part of such a name, if the whole
    one is not found. What a count, a sum or an average is compared with is no value of the column.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("singer", (Column("first_name"), Column("country"))),), dialect="sqlite")
    >>> tokens = align("Names of singers from France", "SELECT first_name FROM singer WHERE country = 'France'", schema)
    >>> [(token.token, token.schema, token.type) for token in tokens if token.type]
    [('Names', 'singer.first_name', 'col'), ('singers', 'singer', 'tbl'), ('France', 'singer.country', 'val')]
    """
    links = QuestionLinks(map(AlignedToken, question_tokens(question)))
    used = used_elements(sql, schema)
    for value, column in sorted(_compared_values(sql, schema), key=lambda compared: -len(compared[0])):
        links.link_texts(value, AlignedToken("", column.table, column.column, "val"))
    names = [AlignedToken("", column.table, column.column, "col") for column in used.columns]
    names += [AlignedToken("", table, "", "tbl") for table in used.tables]
    names.sort(key=lambda name: (-len(name_words(_name(name))), name.type == "tbl"))
    unlinked = [name for name in names if not links.link_names(_name(name), name)]
    for name in unlinked:
        links.link_part(_name(name), name)
    return tuple(links.linked)


def _compared_values(sql: str, schema: Schema) -> Iterator[tuple[str, ColumnName]]:
    """Yield the values in a SQL, each with the column that it is compared with."""
    from sqlglot import exp

    tree = parse(sql, schema.dialect).tree
    resolution = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if tree is None or resolution is None:
        return
    spelled = {(name.table.lower(), name.column.lower()): name for name in schema.column_names}
    columns = {id(node): spelled[home] for node, home in resolution.columns if home in spelled}
    unknown = {id(node) for node, home in resolution.columns if home is None}
    for predicate in tree.find_all(exp.Predicate):
        inside = list(predicate.walk(prune=lambda node: isinstance(node, exp.Query)))
        homes = {columns[id(node)] for node in inside if id(node) in columns}
        # AND and OR hold the comparisons; a count, a sum or an average is no value of its column
        if len(homes) != 1 or isinstance(predicate, exp.Connector) or any(_computes(node) for node in inside):
            continue
        for node in inside:
            # in SQLite a name in double quotes that means no column is a string
            quoted = isinstance(node, exp.Column) and id(node) in unknown and node.this.args.get("quoted")
            if isinstance(node, exp.Literal) or quoted:
                yield node.name.strip("%"), next(iter(homes))


def _computes(node: "exp.Expr") -> bool:
    """Whether the result of an aggregate is no value of its column: of all but MIN and MAX."""
    from sqlglot import exp

    return isinstance(node, exp.AggFunc) and not isinstance(node, exp.Min | exp.Max)


def _name(meaning: AlignedToken) -> str:
    return meaning.column or meaning.table
