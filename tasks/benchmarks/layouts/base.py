"""What a layout decides, with BIRD's answers as defaults.

A layout of one's own is a subclass that overrides what differs, in a file (`layout: path/to/mine.py:MyLayout`) or in
an installed package (entry point in the group `crosscheck.layouts`).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tasks.benchmarks.files.readers import Row, json_rows, parquet_rows
from tasks.benchmarks.files.schemas import read_schemas
from tasks.database.schema import Schema
from tasks.errors import DataError
from tasks.records import Demonstration, Question
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.kinds import LAYOUTS

Submission = Literal["bird", "lines"]


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


@dataclass(frozen=True, slots=True)
class Places:
    """Where a layout may look for files.

    Attributes:
        data: the data location, the parent of a benchmark's folder unless that is absolute.
        home: the working folder.
        conf: the configuration folder.
        progress: is called with a sentence about work that takes a while; None: nothing is shown.
    """

    data: Path
    home: Path
    conf: Path
    progress: Callable[[str], None] | None = None


class Layout:
    """Layout of a benchmark's files: BIRD's, which subclasses override."""

    settings: ClassVar[type[BenchmarkSettings]] = BenchmarkSettings
    """Model of the benchmark's settings."""
    sql_keys: ClassVar[tuple[str, ...]] = ("SQL", "query")
    """Keys that may hold the gold SQL of a question; the first present one counts."""
    graded: ClassVar[bool] = True
    """Whether a question's "difficulty" is in the file."""
    descriptions: ClassVar[str | None] = "database_description"
    """Name of the folder of description CSVs beside each database file; None: there is none."""
    exact_match: ClassVar[bool] = False
    """Whether Spider's exact set match is scored beside execution accuracy."""
    submission: ClassVar[Submission] = "bird"
    """Form of the predictions for the official evaluator: BIRD's JSON, or Spider's lines of SQL."""

    def folder(self, settings: BenchmarkSettings, places: Places) -> Path:
        """Return the folder of the benchmark's files, whether or not it exists."""
        return places.data / Path(settings.folder).expanduser()

    def database_path(self, databases: Path, database_id: str) -> Path:
        """Return the place of a database's SQLite file below the folder of databases, whether or not it exists."""
        return databases / database_id / f"{database_id}.sqlite"

    def read_split(self, path: Path) -> Split:
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
            questions.append(self.question(row, identity))
            gold[identity] = row.text(self.sql_keys)
        if not questions:
            raise DataError(f"{path} holds no question.")
        return Split(tuple(questions), gold, hashlib.sha256(path.read_bytes()).hexdigest())

    def question(self, row: Row, identity: str) -> Question:
        """Return one question of the split.

        Raises:
            DataError: a key is missing, or a value has the wrong type.
        """
        return Question(
            id=identity,
            text=row.text(["question"]),
            database_id=row.folder_name("db_id"),
            evidence=row.optional_text("evidence") or "",
            difficulty=row.optional_text("difficulty") or None if self.graded else None,
        )

    def read_demonstrations(self, path: Path) -> tuple[Demonstration, ...]:
        """Read training questions from JSON, or from Parquet by the file's ending, in file order.

        Raises:
            DataError: the file cannot be read, or a row lacks its question, database or SQL.
        """
        columns = ["db_id", "question", "evidence", *self.sql_keys]
        rows = parquet_rows(path, columns) if path.suffix.lower() == ".parquet" else json_rows(path)
        return tuple(
            Demonstration(
                question=row.text(["question"]),
                sql=row.text(self.sql_keys),
                database_id=row.text(["db_id"]),
                evidence=row.optional_text("evidence") or "",
            )
            for row in rows
        )

    def read_schemas(self, path: Path) -> dict[str, Schema]:
        """Read every schema of a tables file (`tables.json`, `dev_tables.json`) by database id, without samples.

        Raises:
            DataError: the file cannot be read, an entry is malformed, or two are about the same database.
        """
        return read_schemas(path)


def layout_of(name: str) -> Layout:
    """Return the layout of a name, or of `path/to/file.py:class`.

    Raises:
        ConfigurationError: there is none.
    """
    found: type[Layout] = LAYOUTS.get(name)
    return found()


def _identity(row: Row) -> str:
    value = row.content.get("question_id")
    if value is None:
        return str(row.position)
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise DataError(f'{row.place}: "question_id" must be a whole number or a text, not {value!r}.')
    return str(value).strip()
