"""Reads the questions of an evaluated split, and the demonstrations of a training split."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.benchmarks.files import Row, json_rows, parquet_rows
from tasks.benchmarks.layout import FileLayout
from tasks.errors import DataError
from tasks.records import Demonstration, Question


@dataclass(frozen=True, slots=True)
class Split:
    """The evaluated split.

    Attributes:
        questions: in file order.
        gold: gold SQL by question id, one for every question.
        digest: sha256 of the file.
    """

    questions: tuple[Question, ...]
    gold: Mapping[str, str]
    digest: str


def read_split(path: Path, layout: FileLayout) -> Split:
    """Read questions and gold.

    "evidence", "difficulty" and "question_id" may be absent; the id is then the position, from 0.

    Raises:
        DataError: a key is missing, a value has the wrong type, an id comes twice, there is no question.
    """
    questions: list[Question] = []
    gold: dict[str, str] = {}
    positions: dict[str, int] = {}
    for row in json_rows(path):
        identity = _identity(row)
        if identity in positions:
            raise DataError(
                f'{row.place}: the id "{identity}" already belongs to item {positions[identity]}. '
                'Give every question its own "question_id", or none of them one.'
            )
        positions[identity] = row.position
        questions.append(
            Question(
                id=identity,
                text=row.text(["question"]),
                database_id=row.folder_name("db_id"),
                evidence=row.optional_text("evidence") or "",
                difficulty=row.optional_text("difficulty") or None if layout.graded else None,
            )
        )
        gold[identity] = row.text(layout.sql_keys)
    if not questions:
        raise DataError(f"{path} holds no question.")
    return Split(tuple(questions), gold, hashlib.sha256(path.read_bytes()).hexdigest())


def read_demonstrations(path: Path, layout: FileLayout) -> tuple[Demonstration, ...]:
    """Read training questions from JSON, or from Parquet by the file's ending, in file order.

    Raises:
        DataError: the file cannot be read, or a row lacks its question, database or SQL.
    """
    columns = ["db_id", "question", "evidence", *layout.sql_keys]
    rows = parquet_rows(path, columns) if path.suffix.lower() == ".parquet" else json_rows(path)
    return tuple(
        Demonstration(
            question=row.text(["question"]),
            sql=row.text(layout.sql_keys),
            database_id=row.text(["db_id"]),
            evidence=row.optional_text("evidence") or "",
        )
        for row in rows
    )


def _identity(row: Row) -> str:
    value = row.content.get("question_id")
    if value is None:
        return str(row.position)
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise DataError(f'{row.place}: "question_id" must be a whole number or a text, not {value!r}.')
    return str(value).strip()
