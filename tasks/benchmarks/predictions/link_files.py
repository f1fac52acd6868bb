"""Reads schema links that another system made: names of tables and columns for each question."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.files.readers import Row, json_line_rows, json_rows, read_text
from tasks.core.errors import DataError


@dataclass(frozen=True, slots=True)
class LinkNames:
    """What was linked for one question, as it was written: not yet matched against the schema."""

    tables: tuple[str, ...]
    columns: tuple[str, ...]


def read_links(path: Path, benchmark: Benchmark) -> Mapping[str, LinkNames]:
    """Read links by question id, from JSON lines or a JSON list of objects with "tables" and "columns".

    A column is written `table.column`. Objects without "question_id" belong to the questions of the whole
    benchmark in their order, and must be as many.

    Raises:
        DataError: the file cannot be read, an object is malformed, an id is unknown or comes twice, or objects
            without ids are not as many as the questions.
    """
    rows = list(json_line_rows(path) if not read_text(path).lstrip().startswith("[") else json_rows(path))
    with_id = sum("question_id" in row.content for row in rows)
    if with_id not in (0, len(rows)):
        raise DataError(
            f"{path}: {with_id:,} of its {len(rows):,} objects have a question_id. Give it to all or none."
        )
    known = [question.id for question in benchmark.questions]
    if not with_id and len(rows) != len(known):
        raise DataError(
            f"{path} has {len(rows):,} objects, but {benchmark.settings.name} has {len(known):,} questions. They "
            'have no ids, so object N must be about question N; or give each a "question_id".'
        )
    ids = [str(row.content["question_id"]) for row in rows] if with_id else known
    links: dict[str, LinkNames] = {}
    for identity, row in zip(ids, rows, strict=True):
        if identity in links:
            raise DataError(
                f"{row.place}: question {identity} has a link already. Keep one for each question."
            )
        links[identity] = LinkNames(_names(row, "tables"), _names(row, "columns"))
    if unknown := sorted(links.keys() - set(known)):
        raise DataError(f"{path}: {unknown[0]} is no question id of {benchmark.settings.name}.")
    return links


def _names(row: Row, key: str) -> tuple[str, ...]:
    value: Any = row.content.get(key)
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        form = '"table.column" texts' if key == "columns" else "names"
        raise DataError(f'{row.place}: "{key}" must be a list of {form}.')
    return tuple(value)
