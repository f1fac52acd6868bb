"""Adapting a demonstration: its query, with the values, columns and comparisons of the question that is asked.

A demonstration over the same database keeps its names; what differs between the two questions is exchanged.
One over another database lends its skeleton, if it needs a single table: every column that its question names
is replaced by the column that the asked question names in the same place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tasks.backbone.offline.alignment import Alignment, Unit, align
from tasks.backbone.offline.query import literal, quoted
from tasks.backbone.offline.reading import Example
from tasks.backbone.offline.sql_tokens import SqlToken, aliases, fits, joined, sql_tokens
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.values import Value
from tasks.backbone.offline.words import likeness, stem, stems_of
from tasks.records import ColumnName


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A demonstration's query made to fit.

    Attributes:
        sql: the query.
        likeness: how alike the two questions are once their values are hidden, in 0..1.
        same_database: whether the demonstration's names are the schema's own.
    """

    sql: str
    likeness: float
    same_database: bool


@dataclass(slots=True)
class _Changes:
    """What to exchange in the demonstration's query, and which units of the questions that explains.

    Attributes:
        values: by the value in lower case, what stands for it now.
        names: by the name in lower case, the name to write.
        operators: by operator, the operator to write.
    """

    values: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    operators: dict[str, str] = field(default_factory=dict)
    explained: set[Unit] = field(default_factory=set)


def adapt(example: Example, text: QuestionText, values: Sequence[Value]) -> Adaptation | None:
    """Return the demonstration's query for the question, None where it cannot be made to fit.

    Args:
        example: the demonstration.
        text: the question that is asked.
        values: its values.
    """
    tokens = sql_tokens(example.sql.rstrip("; "), text.schema)
    sides = align(example.question, tokens, text, values)
    same = fits(tokens, text.schema)
    changes = _Changes()
    if not _exchange_values(sides, changes):
        return None
    if same:
        _exchange_words(sides, tokens, text, changes)
    elif not _fill_slots(sides, tokens, text, changes):
        return None
    sql = joined([_written(token, changes) for token in tokens])
    return Adaptation(sql, sides.likeness(frozenset(changes.explained)), same)


def _exchange_values(sides: Alignment, changes: _Changes) -> bool:
    """Pair the values of two questions in order; False unless they are as many and of the same kinds."""
    shown = [unit for unit in sides.shown if unit.value]
    asked = [unit for unit in sides.asked if unit.value]
    if len(shown) != len(asked):
        return False
    for old, new in zip(shown, asked, strict=True):
        if old.is_number != new.is_number:
            return False
        changes.values[old.value.lower()] = new.value
        changes.explained.update((old, new))
    return True


def _exchange_words(
    sides: Alignment, tokens: Sequence[SqlToken], text: QuestionText, changes: _Changes
) -> None:
    """Exchange what only one of two questions over one database says: a comparison, a column, a bare value."""
    own = aliases(tokens)
    names = sorted({token.plain.lower() for token in tokens if token.kind == "name"} - own)
    for run in sides.runs:
        if run.equal or not run.shown or not run.asked:
            continue
        if len(run.shown) == len(run.asked) == 1 and run.shown[0].is_operator and run.asked[0].is_operator:
            changes.operators[run.shown[0].key] = run.asked[0].key
            changes.explained.update((*run.shown, *run.asked))
            continue
        said = {unit.key for unit in run.shown}
        start, end = run.asked[0].start, run.asked[-1].end
        old = [n for n in names if stems_of(n) and stems_of(n)[-1] in said and text.schema.find(n)]
        new = [m for m in text.columns if m.start < end and start < m.end and m.score >= 0.75]
        if len(old) == 1 and len(new) == 1 and sum(t.plain.lower() == old[0] for t in tokens) == 1:
            table = text.schema.find(old[0])[0].table
            column = next((one for one in new[0].columns if one.table == table), None)
            if column is not None:
                changes.names[old[0]] = quoted(column.column)
                changes.explained.update((*run.shown, *run.asked))
                continue
        literals = [t.plain for t in tokens if t.kind == "value" and stem(t.plain.lower()) in said]
        if len(literals) == 1 and len(run.asked) == 1:
            word = text.tokens[run.asked[0].start].lower
            changes.values[literals[0].lower()] = word[:-1] if word.endswith("s") else word
            changes.explained.update((*run.shown, *run.asked))


def _fill_slots(sides: Alignment, tokens: Sequence[SqlToken], text: QuestionText, changes: _Changes) -> bool:
    """Find a name of this schema for every name of another database's query; False unless all can be filled."""
    froms = [i for i, token in enumerate(tokens) if token.text.upper() in ("FROM", "JOIN")]
    if len(froms) != 1 or froms[0] + 1 >= len(tokens) or aliases(tokens):
        return False
    table_name = tokens[froms[0] + 1].plain
    if sum(token.plain.lower() == table_name.lower() for token in tokens) > 1:
        return False  # a column of the table's own name
    place = _places(sides)
    filled: dict[str, ColumnName] = {}
    for name in dict.fromkeys(token.plain for token in tokens if token.kind == "name"):
        if name.lower() == table_name.lower():
            continue
        spot = _spot(name, sides, place)
        mention = next((m for m in text.columns if spot is not None and m.start <= spot < m.end), None)
        if mention is None:
            return False
        filled[name.lower()] = text.resolve(mention)
    if len(set(filled.values())) < len(filled):
        return False
    said_columns = [m for m in text.columns if m.score >= 0.9]
    if not all(set(m.columns) & set(filled.values()) for m in said_columns):
        return False
    tables = {column.table for column in filled.values()}
    if not tables:
        spot = _spot(table_name, sides, place)
        said = next((m for m in text.tables if spot is not None and m.start <= spot < m.end), None)
        if said is None:
            return False
        tables = {text.table_of(said)}
    if len(tables) != 1:
        return False
    table = tables.pop()
    changes.names.update({name: quoted(column.column) for name, column in filled.items()})
    changes.names[table_name.lower()] = quoted(table)
    old = {s for name in changes.names for s in stems_of(name)}
    new = {s for column in filled.values() for s in stems_of(column.column)} | set(stems_of(table))
    changes.explained.update(unit for unit in sides.shown if unit.key in old)
    changes.explained.update(unit for unit in sides.asked if unit.key in new)
    return True


def _places(sides: Alignment) -> dict[Unit, int]:
    """Map the demonstration's units to tokens of the question: equal ones, and what stands in their place."""
    place: dict[Unit, int] = {}
    for run in sides.runs:
        if len(run.shown) == len(run.asked):
            place.update({old: new.start for old, new in zip(run.shown, run.asked, strict=True)})
        elif run.asked:
            place.update(dict.fromkeys(run.shown, run.asked[-1].start))
    return place


def _spot(name: str, sides: Alignment, place: dict[Unit, int]) -> int | None:
    """Return the token of the question that stands where the demonstration's question says a name."""
    for wanted in reversed(stems_of(name)):
        for unit in sides.shown:
            if not unit.value and unit in place and likeness(unit.key, wanted) >= 0.75:
                return place[unit]
    return None


def _written(token: SqlToken, changes: _Changes) -> str:
    """Write one token of the adapted query."""
    if token.kind == "name":
        return changes.names.get(token.plain.lower(), token.text)
    if token.kind == "other":
        return changes.operators.get(token.text, token.text)
    plain = token.plain.lower()
    if plain in changes.values:
        new = changes.values[plain]
        return new if token.kind == "number" else literal(new)
    for old, new in changes.values.items():
        if token.kind == "value" and old in plain:
            at = plain.index(old)
            return literal(token.plain[:at] + new + token.plain[at + len(old) :])
    return token.text
