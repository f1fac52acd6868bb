"""Entity linking: which word of the question means which table, column or value (DAC, section 3.2).

The reply is an alignment list. It is read leniently, its items are put at the question's own tokens, and tokens that it
leaves unlinked are linked by the names of the schema.

Also the values of the database that a question mentions, for the schema of DAC's prompts (section 3.1), without a model
call and without an index: one query per table compares the values of its text columns, without regard to case, with the
runs of words of the question. Deviation: the paper fills up with random values; ours are those of the first rows, so
that prompts repeat.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from pydantic import Field, model_validator
from rapidfuzz.distance import LCSseq

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.replies.json_text import read_json
from tasks.core.records import (
    AlignedToken,
    Alignment,
    ColumnName,
    ColumnValues,
    Entities,
    EntityType,
    Question,
)
from tasks.database.dialects import quoted
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Column, Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.retrieval.alignment import (
    GroundedDemonstration,
    QuestionLinks,
    name_words,
    question_tokens,
    stem,
    whole_question,
)
from tasks.retrieval.demonstrations import FUNCTION_WORDS
from tasks.settings.stages import Names
from tasks.sql.elements import Elements, used_elements
from tasks.stages.dac import shown_examples
from tasks.stages.links import read_link
from tasks.stages.replies import StageReply
from tasks.stages.schema_prompt import schema_messages
from tasks.stages.stage import stage

_OBJECT = re.compile(r"\{[^{}]*\}")
_NOTHING = frozenset({"", "none", "null", "nil", "n/a", "-"})
_TYPES = {"tbl": "tbl", "table": "tbl", "col": "col", "column": "col", "val": "val", "value": "val"}
_TOKEN_KEYS = ("token", "word", "text", "span")
_SCHEMA_KEYS = ("schema", "entity", "schema_entity", "column", "link", "name")
_TYPE_KEYS = ("type", "kind", "entity_type")


class AlignedItem(StageReply):
    """What one token is aligned to, as the backbone spells it; None for nothing."""

    token: str
    entity: str | None = Field(None, alias="schema")
    type: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _leniently(cls, value: Any) -> Any:
        """Read an item that is a list or a text, has other keys, or names its table apart."""
        if isinstance(value, list | tuple) and 1 <= len(value) <= 3:
            value = dict(zip(("token", "schema", "type"), value, strict=False))
        if isinstance(value, str):
            value = {"token": value}
        if not isinstance(value, dict):
            return value
        fields = {str(key).strip().lower(): item for key, item in value.items()}
        entity = _text(_first(fields, _SCHEMA_KEYS))
        table = _text(fields.get("table"))
        if table and (not entity or "." not in entity):
            entity = f"{table}.{entity}" if entity else table
        token = _first(fields, _TOKEN_KEYS)
        kind = _text(_first(fields, _TYPE_KEYS))
        return {
            "token": token if token is None else str(token),
            "schema": entity,
            "type": _TYPES.get(kind.lower()) if kind else None,
        }


class AlignmentReply(StageReply):
    """The alignment of a whole question; items that are none are left out."""

    alignment: list[AlignedItem]

    @model_validator(mode="before")
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        """Return the reply with its valid items as a list; raise ValueError if it has items and none is valid."""
        items = value.get("alignment") if isinstance(value, dict) else None
        if isinstance(items, dict):  # {"singers": "singer"}, or {"singers": {"schema": ..., "type": ...}}
            items = [
                {"token": key, **item} if isinstance(item, dict) else {"token": key, "schema": item}
                for key, item in items.items()
            ]
        if not isinstance(items, list):
            return value
        valid_items = [item for item in items if _is_item(item)]
        if items and not valid_items:
            raise ValueError('an alignment is a list of objects with the key "token"')
        return {"alignment": valid_items}

    @classmethod
    def from_text(cls, text: str) -> "AlignmentReply | None":
        """Read objects that are written one per line, without a list around them, or in a list under another name."""
        value = read_json(text).value
        if isinstance(value, dict):
            inner = next((item for item in value.values() if isinstance(item, list)), None)
            if inner and all(map(_is_item, inner)):
                return cls.model_validate({"alignment": inner})
        items = [read_json(match).value for match in _OBJECT.findall(text)]
        items = [item for item in items if isinstance(item, dict) and _is_item(item)]
        return cls.model_validate({"alignment": items}) if items else None


def _is_item(item: Any) -> bool:
    if isinstance(item, dict):
        fields = {str(key).strip().lower(): value for key, value in item.items()}
        return isinstance(_first(fields, _TOKEN_KEYS), str | int | float)
    return isinstance(item, list | tuple) and 1 < len(item) <= 3 and isinstance(item[0], str)


def _first(fields: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    text = "" if value is None else str(value).strip()
    return None if text.lower() in _NOTHING else text


@dataclass(frozen=True, slots=True)
class Resolved:
    """A question's tokens, linked."""

    tokens: tuple[AlignedToken, ...]  # every token, in order
    dropped: tuple[str, ...]  # entities that the schema does not have, as they were given
    without_meaning: frozenset[int]  # places of tokens that the list says mean nothing


def resolve_given(question: str, items: Iterable[AlignedItem], shown: Schema, full: Schema) -> Resolved:
    """Put a list's items at the question's own tokens, by their longest common subsequence.

    Models leave tokens out, write several as one, or spell them differently: what is not in the question is left
    out, in its order, and what is left out stays unlinked. The names of the schema that the backbone saw win.
    """
    tokens = question_tokens(question)
    pieces = [(piece, item) for item in items for piece in question_tokens(item.token)]
    aligned = [AlignedToken(token) for token in tokens]
    dropped: dict[str, None] = {}
    without_meaning = set()
    for block in LCSseq.opcodes([piece.lower() for piece, _ in pieces], [token.lower() for token in tokens]):
        if block.tag != "equal":
            continue
        for offset in range(block.src_end - block.src_start):
            item = pieces[block.src_start + offset][1]
            position = block.dest_start + offset
            if item.entity is None:
                without_meaning.add(position)
            if item.entity is None or not stem(tokens[position]):
                continue
            meaning = _meaning(item.entity, item.type, shown) or _meaning(item.entity, item.type, full)
            if meaning is None:
                dropped[item.entity] = None
            else:
                aligned[position] = replace(meaning, token=tokens[position])
    return Resolved(tuple(aligned), tuple(dropped), frozenset(without_meaning))


def link_by_name(
    tokens: Sequence[AlignedToken], shown: Schema, full: Schema, used: Elements, skipped: Collection[int] = ()
) -> tuple[AlignedToken, ...]:
    """Link tokens that are still unlinked that name a table or column, except those at the places in `skipped`.

    The longest names first, those of the shown tables before the others. Of columns that share a name, one that
    the SQL uses wins, then the first of the shown ones; outside of the shown tables a column is linked only
    where its name is the only one of its kind, because a guess would become a false correction.

    >>> from tasks.database.schema import Column, Table
    >>> tables = (Table("singer", (Column("first_name"),)), Table("song", (Column("title"),)))
    >>> full = Schema("d", tables, dialect="sqlite")
    >>> tokens = [AlignedToken(t) for t in ("first", "names", "and", "titles")]
    >>> linked = link_by_name(tokens, Schema("d", full.tables[:1], dialect="sqlite"), full, Elements(("singer",), ()))
    >>> [token.schema for token in linked]
    ['singer.first_name', 'singer.first_name', None, 'song.title']
    """
    links = QuestionLinks(tokens, skipped)
    for name, meaning in _names_to_find(shown, full, used):
        links.link_names(name, meaning)
    return tuple(links.linked)


def entities_of(tokens: Iterable[AlignedToken], schema: Schema) -> Entities:
    """Return what tokens mean, in schema order, with the tables of the columns."""
    columns = {ColumnName(token.table, token.column) for token in tokens if token.column}
    tables = {token.table for token in tokens if token.table}
    return Entities(
        tuple(table.name for table in schema.tables if table.name in tables),
        tuple(name for name in schema.column_names if name in columns),
    )


def _meaning(entity: str, kind: str | None, schema: Schema) -> AlignedToken | None:
    """Return what an entity of a reply is in the schema: of the kind that it says if there is one, else another."""
    tables = read_link(schema, (entity,), ()).tables
    columns = read_link(schema, (), (entity,)).columns
    if tables and (kind == "tbl" or not columns):
        return AlignedToken("", tables[0], "", "tbl")
    if columns:
        return AlignedToken("", columns[0].table, columns[0].column, "val" if kind == "val" else "col")
    return None


def _names_to_find(shown: Schema, full: Schema, used: Elements) -> list[tuple[str, AlignedToken]]:
    """Return the names to look for, each with what it means, in the order of looking."""
    visible = {table.name for table in shown.tables}
    ranked: dict[tuple[str, EntityType], list[AlignedToken]] = {}
    for table in full.tables:
        ranked.setdefault((_stemmed(table.name), "tbl"), []).append(AlignedToken("", table.name, "", "tbl"))
        for column in table.columns:
            meaning = AlignedToken("", table.name, column.name, "col")
            ranked.setdefault((_stemmed(column.name), "col"), []).append(meaning)
    names: list[AlignedToken] = []
    for meanings in ranked.values():
        inside = [meaning for meaning in meanings if meaning.table in visible]
        inside.sort(key=lambda meaning: ColumnName(meaning.table, meaning.column) not in used.columns)
        if inside or len(meanings) == 1:
            names.append((inside or meanings)[0])
    name_pairs = [(meaning.column or meaning.table, meaning) for meaning in names]
    return sorted(
        name_pairs,
        key=lambda pair: (-len(name_words(pair[0])), pair[1].table not in visible, pair[1].type == "col"),
    )


def _stemmed(name: str) -> str:
    return " ".join(stem(word) for word in name_words(name))


@stage(version=5, prompts=("entity_linking",))
async def entity_linking(
    question: Question,
    view: SchemaView,
    demonstrations: tuple[GroundedDemonstration, ...],
    sql: str | None,
    names: Names,
    backbone: MeteredBackbone,
) -> Alignment:
    """Align the tokens of the question and its evidence with the schema, given a SQL that was written for it.

    The backbone sees the tables of the SQL only; without a SQL, all tables. Tokens that it leaves unlinked are then
    compared with the names of the full schema, so that a table which the SQL misses can be found; with the names
    "unlisted", only those that the reply does not list. A demonstration of an unknown database is not shown. Entities
    that the schema does not have are dropped and noted. After an unreadable reply all links come from the names; a note
    says so.
    """
    used = used_elements(sql, view.schema) if sql else Elements((), ())
    shown = view.limited_to(used.tables)
    reply = await backbone.ask_json(
        schema_messages(
            "entity_linking",
            shown,
            question=question,
            examples=shown_examples((one for one in demonstrations if one.database is not None), view.prompt),
            sql=sql or "",
        ),
        AlignmentReply,
        otherwise="linked by names alone",
    )
    items = reply.alignment if reply else []
    resolved = resolve_given(
        whole_question(question.text, question.evidence), items, shown.schema, view.schema
    )
    if resolved.dropped:
        backbone.note(f"not in the schema: {', '.join(resolved.dropped)}")
    but = resolved.without_meaning if names == "unlisted" else ()
    tokens = link_by_name(resolved.tokens, shown.schema, view.schema, used, but)
    by_name = sum(one.type != before.type for one, before in zip(tokens, resolved.tokens, strict=True))
    note = "" if reply else "the reply could not be read: linked by names alone"
    return Alignment(tokens, entities_of(tokens, view.schema), resolved.dropped, by_name, note)


MAX_RUN = 6
"""Words in a row that may be one value."""
MAX_WORDS = 200
"""Words of question and evidence that are looked at."""
COLUMNS_AT_ONCE = 100
"""Columns per query: SQLite allows 500 parts of a compound query."""

_WORD = re.compile(r"\w+(?:['’.]\w+)*")
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
"""SQLite's `lower` changes ASCII letters only."""


@dataclass(frozen=True, slots=True)
class QuestionValues:
    """Values that a question mentions."""

    columns: tuple[ColumnValues, ...] = ()  # the columns with a mentioned value, in schema order
    # tables that could not be searched (e.g. a timeout); they keep their sample rows.
    left_out: tuple[str, ...] = ()


@stage()
async def question_values(
    question: Question, schema: Schema, most: int, runner: DatabaseRunner
) -> QuestionValues:
    """Find the values of text columns that occur in the question or its evidence, as whole words.

    Up to `most` values per column; each search runs within the benchmark's time limit.
    """
    phrases = phrases_of(f"{question.text}\n{question.evidence}")
    places = {phrase: place for place, phrase in enumerate(phrases)}
    found: list[ColumnValues] = []
    left_out: dict[str, None] = {}
    for table in schema.tables if phrases and most else ():
        columns = [column.name for column in table.columns if _holds_text(column)]
        for start in range(0, len(columns), COLUMNS_AT_ONCE):
            part = columns[start : start + COLUMNS_AT_ONCE]
            sql = _search(table, part, phrases, most, schema.dialect)
            result = await runner.run(sql, rows=most * len(part))
            if not result.ok:
                left_out[table.name] = None
            for place, name in enumerate(part):
                values = [str(value) for position, value in result.rows if position == place]
                if values:
                    values.sort(key=lambda value: (places.get(value.translate(_LOWER), len(places)), value))
                    found.append(ColumnValues(ColumnName(table.name, name), tuple(values)))
    return QuestionValues(tuple(found), tuple(left_out))


def with_mentioned_values(schema: Schema, values: QuestionValues, max_values: int) -> Schema:
    """Return the schema with the mentioned values before its samples: `max_values` different ones per column."""
    mentioned = {column.column: column.values for column in values.columns}

    def samples(name: ColumnName, column: Column) -> tuple[Any, ...]:
        values = dict.fromkeys((*mentioned.get(name, ()), *(v for v in column.samples if v is not None)))
        return tuple(values)[:max_values]

    return schema.with_samples(samples)


def phrases_of(text: str) -> tuple[str, ...]:
    """Return the runs of words in a text that may be values, in order of place, longer ones first, in lower case.

    >>> phrases_of("Is it in New York?")
    ('is it in new york', 'is it in new', 'it in new york', 'it in new', 'in new york', 'in new', 'new york', 'new', \
'york')
    """
    words = list(_WORD.finditer(text))[:MAX_WORDS]
    phrases: dict[str, None] = {}
    for start, first in enumerate(words):
        for last in reversed(words[start : start + MAX_RUN]):
            phrase = text[first.start() : last.end()].translate(_LOWER)
            if "\n" not in phrase and not all(w in FUNCTION_WORDS for w in _WORD.findall(phrase)):
                phrases[phrase] = None
    return tuple(phrases)


def _holds_text(column: Column) -> bool:
    """Return whether a column may hold texts: by its declared type, which may be missing, or by its samples."""
    declared = column.type.upper()
    return (
        not declared
        or any(isinstance(value, str) for value in column.samples)
        or any(kind in declared for kind in ("CHAR", "TEXT", "CLOB", "STRING"))
    )


def _search(table: Table, columns: list[str], phrases: Iterable[str], max_values: int, dialect: str) -> str:
    """Return the SQL that finds, for each column, the values that are phrases of the question."""
    listed = ", ".join("('" + phrase.replace("'", "''") + "')" for phrase in phrases)
    queries = []
    for position, name in enumerate(columns):
        column = quoted(name, dialect)
        values = f"SELECT DISTINCT {column} AS v FROM {quoted(table.name, dialect)}"
        mentioned = f"{values} WHERE lower({column}) IN (SELECT v FROM said)"
        queries.append(f"SELECT {position}, v FROM ({mentioned} ORDER BY 1 LIMIT {max_values})")
    return f"WITH said(v) AS (VALUES {listed}) {' UNION ALL '.join(queries)}"
