"""The warehouse as people query it: five views over its tables, read-only, and their export to Parquet."""

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainSerializer

from tasks.core.described import field_docstrings
from tasks.core.errors import ConfigurationError, DataError, first_problem
from tasks.results.run_record import RunHeader
from tasks.results.warehouse.tables import WarehouseFile, columns_of, create_tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_QUESTION = {"run_id": "the run, as in `runs`", "question_id": "id of the question in the benchmark"}
_VERDICT = {
    "correct": "right under the run's headline rule; NULL: not judged",
    "correct_by_rule": "right by comparison rule: correct_by_rule['strict']",
    "status": "of its execution: ok, error, timeout, too_large, or no_answer without a SQL",
    "error": "the database's message; NULL: none",
    "row_count": "rows that the SQL returned; NULL: it did not finish",
    "gold_rows": "rows that the gold returned; NULL: it did not finish",
    "difference": "how a wrong result differs: missing_rows, extra_columns, ...; empty: right, or nothing to compare",
}

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "runs": {
        **field_docstrings(RunHeader),
        "calls": "model calls that this run paid for; NULL: unknown, predictions made elsewhere",
        "cached_calls": "model calls that the reply cache answered, or an earlier run; NULL: unknown",
        "cost_usd": "US dollars of the paid calls; NULL: unknown, for one without a price too",
        "from_scratch_usd": "US dollars that the same answers cost with an empty reply cache; NULL: unknown",
        "list_usd": "US dollars of the paid calls in the standard tier at the full price of input; NULL: unknown",
        "prompt_cache_usd": "US dollars of list_usd that the provider's prompt cache saved; NULL: unknown",
        "tier_usd": "US dollars of list_usd that cheaper service tiers saved; NULL: unknown",
        "reply_cache_usd": "US dollars that the replies from the cache cost when they were paid; NULL: unknown",
        "flex_calls": "paid calls that were answered in the service tier flex; NULL: unknown",
        "candidates": "candidates per question; NULL: the pipeline's only answer",
        "candidate_curve": "JSON: per k what k candidates are worth and cost; NULL without candidates",
        "keys": "sha256 of each answer key beside the official one, by name",
        "parent_run_id": "of a re-run: the run whose other answers it keeps",
        "rerolled": "whether a question that had an answer was asked again: not comparable with a single run",
        "sweep": "id of the sweep that it belongs to",
        "name": "the text of --name",
        "note": "the text of --note",
        "changed": "settings that differ from the defaults",
        "settings": "all settings, as JSON",
        "tags": "tags by name: tags['team']",
        "scores": "execution accuracy by rule and by score variant, answer keys among them: scores['arcwise'].ex",
        "record": "the whole record of the run, as JSON: docs/run-record.schema.json",
    },
    "questions": {
        **_QUESTION,
        "position": "place in the benchmark's order, from 0; NULL while the run is not finished",
        "database": "id of its database",
        "difficulty": "as the benchmark grades it; without a grade, under Spider's rule, the hardness of the gold",
        "question": "its text",
        "evidence": "the benchmark's hint",
        "sql": "the final SQL; NULL: no answer",
        "gold_sql": "the gold SQL",
        **_VERDICT,
        "gold_status": "of the gold's execution; anything but ok is a fault of the benchmark",
        "seconds": "run time of the final SQL",
        "executable": "whether its database and its gold are there; others are not scored",
        "failure_kind": "why it has no answer: backbone_error, missing_database, internal_error, ...; NULL: it has one",
        "failure": "the message of that failure",
        "correct_by_variant": "right by score variant: correct_by_variant['arcwise']; NULL: not counted, or not known",
        "keys": "what answer keys change of the question, by name: keys['arcwise'].change",
        "undecided": "ways in which another engine, order or plan changes the gold's result; NULL: not looked for",
        "opinion": "whether a model calls the answer right: no score; NULL: none was asked",
        "opinion_by": "the model of that opinion",
        "opinion_reason": "its reason",
        "attempts": "how often it was taken through the pipeline, by this run and those that it re-ran",
        "notes": "remarks of the pipeline",
    },
    "candidates": {
        **_QUESTION,
        "position": "place among the question's candidates, from 0",
        "stage": "the stage, numbered in the pipeline's order: 1_preliminary_sql",
        "sql": "the SQL that stands after the stage; NULL: none",
        "reached": "whether the question came to this stage",
        **_VERDICT,
        "seconds": "run time of the SQL",
    },
    "stages": {
        **_QUESTION,
        "position": "place among the question's stages, from 0",
        "stage": "name of the stage: forward_link",
        "label": "its name where a pipeline has it more than once: self_correction_sql1",
        "value": "what it returned, as JSON",
        "restored": "whether the result is that of an earlier run, so that no call was made now",
        "seconds": "wall time of the stage when it ran",
        "error": "why it failed; NULL: it did not",
        "notes": "fallbacks, invented names, unreadable replies",
        "replies": "replies that it needed; a repeated request counts once",
        "unreadable": "those that could not be read, even after a second request",
        "fallback": "its fallback, as a clause; empty: none",
        "skipped": "why it did not run; empty: it did",
    },
    "calls": {
        **_QUESTION,
        "position": "place among the calls of the stage, from 0",
        "stage_position": "position of its stage in `stages`",
        "stage": "name of its stage",
        "label": "label of its stage",
        "model": "the model that answered, as the API names it",
        "paid": "made by this run and not answered from the cache",
        "restored": "part of a stage result of an earlier run",
        "cached": "answered from the reply cache",
        "input_tokens": "tokens of the prompt; NULL: the endpoint did not say",
        "cached_input_tokens": "those of them that the endpoint had cached",
        "output_tokens": "tokens of the reply, thoughts included",
        "reasoning_tokens": "those of them that were thoughts",
        "cost_usd": "US dollars that the call cost, 0 if cached; NULL: unknown",
        "cost_source": "where the cost comes from: prices (of the model's settings) or endpoint",
        "from_scratch_usd": "US dollars that a cached reply cost when it was paid; NULL: unknown, or not cached",
        "tier": "service tier in which the call was answered",
        "list_usd": "US dollars of the call in the standard tier at the full price of input; NULL: unknown, or cached",
        "prompt_cache_usd": "US dollars of list_usd that the provider's prompt cache saved; NULL: unknown, or cached",
        "cache_write_tokens": "tokens of the prompt that the provider wrote to its prompt cache",
        "seconds": "from sending to the full reply, retries included; 0 if cached",
        "retries": "requests beyond the first",
        "parse": "how the reply was read: json, fenced, repaired, text or failed",
        "request": "sha256 of the request, its key in the reply cache",
    },
}
"""Meaning of each column by view; NULL means unknown, never 0."""


@dataclass(frozen=True, slots=True)
class View:
    """One view."""

    about: str  # what one row is
    # the expression of each column, by its name; `r` is the row's run, `t` the row itself
    columns: dict[str, str]
    order: tuple[str, ...] = ("run_id", "question_id", "position")  # the columns that an export is sorted by
    hidden: tuple[str, ...] = ()  # columns of the table that are shown under other names or not at all


def _record(path: str, kind: str = "VARCHAR") -> str:
    return f"CAST(json_extract_string(t.record, '$.{path}') AS {kind})"


_SCORE = (
    '"MAP(VARCHAR, STRUCT(ex DOUBLE, correct BIGINT, total BIGINT, low DOUBLE, high DOUBLE, rule VARCHAR))"'
)
_KEY = '"MAP(VARCHAR, STRUCT(change VARCHAR, golds VARCHAR[], reason VARCHAR, source VARCHAR))"'
MONEY = ("cost_usd", "from_scratch_usd", "list_usd", "prompt_cache_usd", "tier_usd", "reply_cache_usd")
"""Fields of `Cost` that are amounts."""
_RIGHT = {"correct": "t.correct[r.rule]", "correct_by_rule": "t.correct"}
_VIEWS: Mapping[str, View] = {
    "runs": View(
        "one evaluation",
        {
            **{name: _record(f"cost.{name}", "BIGINT") for name in ("calls", "cached_calls", "flex_calls")},
            **{name: _record(f"cost.{name}", "DOUBLE") for name in MONEY},
            "candidates": _record("metrics.candidates.n", "BIGINT"),
            "candidate_curve": _record("metrics.candidates.curve"),
            "scores": f"from_json(json_extract(t.record, '$.scores'), '{_SCORE}')",
            "keys": "CAST(json_extract(t.record, '$.keys') AS MAP(VARCHAR, VARCHAR))",
            "parent_run_id": "t.tags['parent_run_id']",
            "rerolled": "t.tags['rerolled'] IS NOT NULL",
            "sweep": "t.tags['sweep']",
            "name": "t.tags['name']",
            "note": "t.tags['note']",
            "changed": "t.tags['changed']",
            "settings": "CAST(json_extract(t.run, '$.settings') AS VARCHAR)",
        },
        ("started", "run_id"),
        hidden=("run",),
    ),
    "questions": View(
        "one question of a run: its final answer and the verdict on it",
        {
            **_RIGHT,
            "failure": "json_extract_string(t.failure, '$.message')",
            "keys": f"from_json(t.keys, '{_KEY}')",
            "opinion": "CAST(json_extract_string(t.opinion, '$.right') AS BOOLEAN)",
            "opinion_by": "json_extract_string(t.opinion, '$.model')",
            "opinion_reason": "json_extract_string(t.opinion, '$.reason')",
        },
        hidden=("links", "samples"),
    ),
    "candidates": View(
        "the SQL that stood after a stage of a question, and the verdict on it",
        _RIGHT,
        hidden=("gold_status",),
    ),
    "stages": View("one stage that a question went through", {}),
    "calls": View(
        "one model call of a stage; paid: made by this run and not answered from the cache",
        {"paid": "NOT (t.restored OR t.cached)"},
        ("run_id", "question_id", "stage_position", "position"),
    ),
}
"""The views with the columns that are not the table's own, or mean something else under the same name."""


def views() -> Mapping[str, View]:
    """Return the views by name, with all of their columns: first those with a meaning, then others of the table."""
    return {name: replace(view, columns=_columns(name, view)) for name, view in _VIEWS.items()}


def _columns(name: str, view: View) -> dict[str, str]:
    others = (column for column in columns_of(name) if column not in view.hidden)
    columns = dict.fromkeys((*MEANINGS[name], *others))
    return {column: view.columns.get(column, f"t.{column}") for column in columns}


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view: its name, DuckDB's type, and what it means."""

    name: str
    type: str
    meaning: str


def schema() -> dict[str, list[ViewColumn]]:
    """Return the columns of each view, whether there is a warehouse yet or not."""
    import duckdb

    with duckdb.connect() as connection:
        create_tables(connection)
        _make_views(connection)
        described = {name: connection.execute(f"DESCRIBE {name}").fetchall() for name in views()}
    return {
        name: [ViewColumn(column, kind, MEANINGS[name].get(column, "")) for column, kind, *_ in rows]
        for name, rows in described.items()
    }


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query returned: column names, each once, and rows of as many values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def as_objects(self) -> list[dict[str, Any]]:
        """Return the rows as plain JSON objects; dates in ISO 8601."""
        return [
            {name: plain(value) for name, value in zip(self.columns, row, strict=True)} for row in self.rows
        ]


def query(warehouse: Path, sql: str) -> QueryResult:
    """Run a query on the views. It can read the warehouse and nothing else, and change nothing."""
    import duckdb

    with _views(warehouse) as connection:
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            sql.encode()  # DuckDB has no message for text that is not Unicode
            cursor = connection.execute(sql)
            if cursor is None:  # no statement at all
                raise ConfigurationError('The query is empty. "crosscheck query --help" has examples.')
            rows = cursor.fetchall() if cursor.description else []
        except (duckdb.Error, UnicodeEncodeError) as error:
            raise ConfigurationError(
                f'The query cannot be run: {error}\n"crosscheck query --schema" lists the views and columns.'
            ) from None
        return QueryResult(_distinct([column[0] for column in cursor.description or ()]), tuple(rows))


def export(warehouse: Path, folder: Path, *, overwrite: bool = False) -> dict[str, int]:
    """Write each view to `<folder>/<view>.parquet`, a file at a time; return the rows of each."""
    files = {name: folder / f"{name}.parquet" for name in views()}
    present = [file.name for file in files.values() if file.exists()]
    if present and not overwrite:
        raise ConfigurationError(
            f"{folder} already holds {', '.join(present)}. Name another folder, or give --overwrite."
        )
    import duckdb

    rows = {}
    with _views(warehouse) as connection:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, file in files.items():
                draft = file.with_suffix(".part")
                quoted = str(draft).replace("'", "''")
                order = ", ".join(views()[name].order)
                copy = f"COPY (SELECT * FROM {name} ORDER BY {order}) TO '{quoted}' (FORMAT parquet)"
                ((count,),) = connection.execute(copy).fetchall()
                draft.replace(file)
                rows[name] = int(count)
        except (OSError, duckdb.IOException) as error:
            raise ConfigurationError(
                f"The folder {folder} cannot be written: {first_problem(error)}"
            ) from None
    return rows


def plain(value: Any) -> Any:
    """Return a value as plain JSON; what JSON has no form for, as infinity and bytes, becomes text."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)


Rows = Annotated[tuple[tuple[Any, ...], ...], PlainSerializer(plain)]
"""Rows of a result, in JSON as `plain` writes them."""


@contextmanager
def _views(warehouse: Path) -> "Iterator[DuckDBPyConnection]":
    """Open the warehouse for reading, with the views in place of its tables."""
    if not warehouse.exists():
        raise DataError(f'There is no warehouse {warehouse} yet: "crosscheck evaluate" makes it.')
    with WarehouseFile(warehouse).reading() as connection:
        _make_views(connection)
        yield connection


def _make_views(connection: "DuckDBPyConnection") -> None:
    ((catalog,),) = connection.execute("SELECT current_database()").fetchall()
    for name, view in views().items():
        listed = ", ".join(f"{expression} AS {column}" for column, expression in view.columns.items())
        table = f'"{catalog}".main'
        join = "" if name == "runs" else f" LEFT JOIN {table}.runs AS r USING (run_id)"
        connection.execute(f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM {table}.{name} AS t{join}")


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Number names that come again, so that no column is lost in an object."""
    distinct: list[str] = []
    for name in names:
        count, unique = 1, name
        while unique in distinct:
            count += 1
            unique = f"{name}_{count}"
        distinct.append(unique)
    return tuple(distinct)
