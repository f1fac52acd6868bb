"""The layouts of BIRD, Spider, their relatives and the demo: what a layout decides, with BIRD's answers as defaults.

A layout of one's own is a subclass that overrides what differs, in a file (`layout: path/to/mine.py:MyLayout`) or in
an installed package (entry point in the group `crosscheck.layouts`).
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

from tasks.benchmarks.rows import Row, files_digest, json_line_rows, json_rows, parquet_rows, read_text
from tasks.benchmarks.schemas import read_schemas
from tasks.core.errors import DataError
from tasks.core.files import shown_files
from tasks.core.records import Demonstration, Question
from tasks.core.registry import called
from tasks.core.wording import counted
from tasks.database.schema import Schema
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.kinds import LAYOUTS
from tasks.sql.rewriting import with_joined_operators

Submission = Literal["bird", "lines"]


@dataclass(frozen=True, slots=True)
class GoldResults:
    """Results that are right answers to one question, where a benchmark has results in place of a gold SQL."""

    files: tuple[Path, ...]  # CSV files with a header; one of them has to be found. Only scoring reads them.
    # per file, positions of the columns that have to be there, from 0; () for all
    columns: tuple[tuple[int, ...], ...]
    ignore_order: bool  # whether the order of rows is ignored


@dataclass(frozen=True, slots=True)
class Split:
    """The evaluated split."""

    # every question, in file order, also those whose database is missing
    questions: tuple[Question, ...] = field(repr=False)
    # gold SQL by question id; a question without one is absent. Golds and results are for `tasks.scoring` only.
    gold: Mapping[str, str] = field(repr=False)
    digest: str  # sha256 of the file; of the digests of all files where there are several
    # accepted results by question id, of questions without gold SQL
    results: Mapping[str, GoldResults] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()  # what a user should know about the files, in sentences
    # further gold SQL by question id, whose results are as right as those of the first, never translated; often none
    further_gold: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SearchPaths:
    """Where a layout may look for files."""

    data: Path  # the data location, the parent of a benchmark's folder unless that is absolute
    home: Path  # the working folder
    conf: Path  # the configuration folder
    # is called with a sentence about work that takes a while; None: nothing is shown
    progress: Callable[[str], None] | None = None


@LAYOUTS.register("bird")
class Layout:
    """Layout of a benchmark's files: BIRD's (Li et al. 2023), which subclasses override.

    - `dev.json`: a list of objects with question_id, db_id, question, evidence, SQL, difficulty.
    - `dev_tables.json`: Spider's description of every schema.
    - `dev_databases/<db>/<db>.sqlite`, and beside it `database_description/<table>.csv`.
    """

    settings: ClassVar[type[BenchmarkSettings]] = BenchmarkSettings
    """Model of the benchmark's settings."""
    sql_keys: ClassVar[tuple[str, ...]] = ("SQL", "query")
    """Keys that may hold the gold SQL of a question; the first present one counts."""
    question_keys: ClassVar[tuple[str, ...]] = ("question",)
    """Keys that may hold the text of a question of the split; the first present one counts."""
    graded: ClassVar[bool] = True
    """Whether a question's "difficulty" is in the file."""
    descriptions: ClassVar[str | None] = "database_description"
    """Name of the folder of description CSVs beside each database file; None: there is none."""
    exact_match: ClassVar[bool] = False
    """Whether Spider's exact set match is scored beside execution accuracy."""
    has_gold: ClassVar[bool] = True
    """Whether every question must have a gold SQL; False: the official evaluators keep it."""
    submission: ClassVar[Submission] = "bird"
    """Form of the predictions for the official evaluator: BIRD's JSON, or Spider's lines of SQL."""

    def folder(self, settings: BenchmarkSettings, places: SearchPaths) -> Path:
        """Return the folder of the benchmark's files, whether or not it exists."""
        return places.data / Path(settings.folder).expanduser()

    def database_path(self, databases: Path, database_id: str) -> Path:
        """Return the place of a database's SQLite file below the folder of databases, whether or not it exists."""
        return databases / database_id / f"{database_id}.sqlite"

    def suite_paths(self, databases: Path, database_id: str) -> tuple[Path, ...]:
        """Return further SQLite files of a database, with other rows, on which a prediction has to be right as well."""
        return ()

    def load(self, settings: BenchmarkSettings, folder: Path, files: Sequence[Path]) -> Split:
        """Read the split from its question files, of which there is at least one.

        If an id occurs in several files, as positions do, the file's name is put before every id: `geo-12`.
        """
        splits = [called(self.read_split, path) for path in files]
        if len(splits) == 1:
            return splits[0]
        return joined(splits, [path.stem for path in files], files_digest(files))

    def read_split(self, path: Path) -> Split:
        """Read questions and gold of one file.

        "evidence", "difficulty" and the id ("question_id", "instance_id" or "id") may be absent; the id is then the
        position, from 0. A question that is repeated word for word (BIRD mini-dev has two) is kept, and gets the id
        `137-2`. The gold SQL may be a list: a result that any of them has is right, and figures that need one SQL take
        the first.
        """
        questions: list[Question] = []
        gold: dict[str, str] = {}
        further: dict[str, tuple[str, ...]] = {}
        rows: dict[str, Row] = {}
        repeated: list[str] = []
        for row in json_rows(path):
            identity = row.question_id or str(row.position)
            if identity in rows and rows[identity].content == row.content:
                identity = f"{identity}-2"
                repeated.append(identity)
            if identity in rows:
                raise DataError(
                    f'{row.location}: the id "{identity}" already belongs to item {rows[identity].position}. '
                    'Give every question its own "question_id", or none of them one.'
                )
            rows[identity] = row
            questions.append(self.question(row, identity))
            if self.has_gold:
                gold[identity], *further_gold = self.sqls(row)
                if further_gold:
                    further[identity] = tuple(further_gold)
        if not questions:
            raise DataError(f"{path} holds no question.")
        notes: tuple[str, ...] = ()
        if repeated:
            notes = (
                f"{counted(len(repeated), 'question', 'is')} repeated word for word in {path.name}. Each repetition "
                f"counts, under the id {', '.join(repeated)}.",
            )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return Split(tuple(questions), gold, digest, notes=notes, further_gold=further)

    def sqls(self, row: Row) -> tuple[str, ...]:
        """Return the gold SQL of a question, or each of several."""
        return row.texts(self.sql_keys)

    def question(self, row: Row, identity: str) -> Question:
        """Return one question of the split."""
        difficulty = row.optional_text("difficulty") if self.graded else None
        return Question(
            id=identity,
            text=row.text(self.question_keys),
            database_id=row.folder_name("db_id"),
            evidence=row.optional_text("evidence") or "",
            difficulty=difficulty or None,
        )

    def read_demonstrations(self, path: Path) -> tuple[Demonstration, ...]:
        """Read training questions from JSON, or from Parquet by the file's ending, in file order."""
        columns = ["db_id", "question", "evidence", *self.sql_keys]
        rows = parquet_rows(path, columns) if path.suffix.lower() == ".parquet" else json_rows(path)
        return tuple(
            Demonstration(
                question=row.text(["question"]),
                sql=self.sqls(row)[0],
                database_id=row.text(["db_id"]),
                evidence=row.optional_text("evidence") or "",
            )
            for row in rows
        )

    def read_schemas(self, path: Path) -> dict[str, Schema]:
        """Read every schema of a tables file (`tables.json`, `dev_tables.json`) by database id, without samples."""
        return read_schemas(path)


def joined(splits: Sequence[Split], names: Sequence[str], digest: str) -> Split:
    """Return several splits as one; if any two ids are equal, the name of its split is put before every id."""
    ids = [question.id for split in splits for question in split.questions]
    has_equal_ids = len(set(ids)) < len(ids)
    prefixes = [f"{name}-" if has_equal_ids else "" for name in names]
    questions: list[Question] = []
    gold: dict[str, str] = {}
    results: dict[str, GoldResults] = {}
    further_gold: dict[str, tuple[str, ...]] = {}
    for prefix, split in zip(prefixes, splits, strict=True):
        questions += [replace(question, id=prefix + question.id) for question in split.questions]
        gold |= {prefix + identity: sql for identity, sql in split.gold.items()}
        results |= {prefix + identity: accepted for identity, accepted in split.results.items()}
        further_gold |= {prefix + identity: sqls for identity, sqls in split.further_gold.items()}
    notes = tuple(chain.from_iterable(split.notes for split in splits))
    return Split(tuple(questions), gold, digest, results, notes, further_gold)


def layout_of(name: str) -> Layout:
    """Return the layout of a name, or of `path/to/file.py:class`."""
    layout: type[Layout] = LAYOUTS.get(name)
    return layout()


@LAYOUTS.register("bird-test")
class BirdTestLayout(Layout):
    """Questions without gold: they are answered, and their predictions handed in."""

    has_gold = False


@LAYOUTS.register("demo")
class DemoLayout(Layout):
    """The demo's layout: its folder is below the working folder and is built there."""

    def folder(self, settings: BenchmarkSettings, places: SearchPaths) -> Path:
        """Build the demo, unless it is there, and return its folder."""
        from tasks.benchmarks.demo import build_demo

        sources = places.conf / "benchmarks" / "demo"
        return build_demo(places.home / "benchmarks" / "demo", sources=sources, progress=places.progress)


@LAYOUTS.register("spider")
class SpiderLayout(Layout):
    """Spider's layout (Yu et al. 2018).

    - `dev.json`: a list of objects with db_id, question, query; a question's id is its position, from 0.
    - `tables.json`: the description of every schema, those of the training split included.
    - `database/<db>/<db>.sqlite`. Further `database/<db>/*.sqlite` are the test suite (Zhong et al. 2020): databases
      with the same schema and other rows, on all of which a prediction has to be right.

    The hardness that the Spider papers report follows from the gold SQL, so `difficulty` is None here.
    """

    sql_keys = ("query", "SQL")
    graded = False
    descriptions = None
    exact_match = True
    submission = "lines"

    def sqls(self, row: Row) -> tuple[str, ...]:
        """Return gold SQL with the operators joined that Spider's evaluator joins: no database executes `> =`."""
        return tuple(map(with_joined_operators, super().sqls(row)))

    def suite_paths(self, databases: Path, database_id: str) -> tuple[Path, ...]:
        """Return the other SQLite files in the database's folder, by name."""
        main = self.database_path(databases, database_id)
        return tuple(path for path in shown_files(main.parent, "*.sqlite") if path != main)


@LAYOUTS.register("spider-syn")
class SpiderSynLayout(SpiderLayout):
    """Spider-Syn (Gan et al. 2021): an item has Spider's question and, in SpiderSynQuestion, its own."""

    question_keys = ("SpiderSynQuestion",)


@LAYOUTS.register("kaggle-dbqa")
class KaggleDbqaLayout(SpiderLayout):
    """KaggleDBQA (Lee et al. 2021): a question file per database; columns are described in the tables file."""

    def database_path(self, databases: Path, database_id: str) -> Path:
        """Return the place of a database's file: in a folder of its own, or beside the others."""
        alone = databases / f"{database_id}.sqlite"
        return alone if alone.is_file() else super().database_path(databases, database_id)

    def suite_paths(self, databases: Path, database_id: str) -> tuple[Path, ...]:
        """Return nothing: there is no test suite."""
        return ()


SQLITE_TASK = "local"


class Spider2Settings(BenchmarkSettings):
    """Settings of Spider 2.0-lite: those of every benchmark, and where its further files are."""

    documents: str = "documents"
    """Folder of the external knowledge documents."""
    evaluation: str = "gold/spider2lite_eval.jsonl"
    """File of the columns and order that each task's result needs."""
    results: str = "gold/exec_result"
    """Folder of the accepted results."""


@LAYOUTS.register("spider2-lite")
class Spider2Layout(Layout):
    """Layout of Spider 2.0-lite (Lei et al. 2024): its tasks on SQLite.

    - `spider2-lite-local.jsonl` (or `spider2-lite.jsonl` with all tasks): a JSON object per line with instance_id, db,
      question and external_knowledge, the name of a document or null. Tasks of other engines are left out.
    - `documents/*.md`: the external knowledge, given to a pipeline as a question's evidence.
    - `gold/spider2lite_eval.jsonl`: per task, `condition_cols` and `ignore_order`.
    - `gold/exec_result/<instance_id>.csv`, or `<instance_id>_a.csv`, `_b.csv`, ...: accepted results; no gold SQL.
    - `databases/<db>.sqlite`.
    """

    settings = Spider2Settings
    graded = False
    descriptions = None
    has_gold = False

    def database_path(self, databases: Path, database_id: str) -> Path:
        """Return the place of a database's file: all are in one folder."""
        return databases / f"{database_id}.sqlite"

    def load(self, settings: BenchmarkSettings, folder: Path, files: Sequence[Path]) -> Split:
        """Read the tasks with their documents, and find their accepted results."""
        assert isinstance(settings, Spider2Settings)
        tasks = [row for path in files for row in json_line_rows(path)]
        rows = [row for row in tasks if row.text(["instance_id"]).startswith(SQLITE_TASK)]
        if not rows:
            raise DataError(f"{files[0]} holds no task on SQLite (instance_id {SQLITE_TASK}...).")
        documents = folder / settings.documents
        missing_documents = {}  # path by task
        questions: dict[str, Question] = {}
        for row in rows:
            name = row.text(["instance_id"])
            if name in questions:
                raise DataError(f'{row.location}: the task "{name}" occurs twice. Take one out.')
            evidence = ""
            if document := row.optional_text("external_knowledge"):
                path = documents / Path(document).name
                if path.is_file():
                    evidence = read_text(path).strip()
                else:
                    missing_documents[name] = path
            questions[name] = Question(name, row.text(["question"]), row.folder_name("db"), evidence)
        results = _accepted_results(folder / settings.results, folder / settings.evaluation, questions)
        notes: tuple[str, ...] = ()
        if missing_documents:
            first_path = next(iter(missing_documents.values()))
            notes = (
                f"{counted(len(missing_documents), 'question', 'needs')} a document of external knowledge that is "
                f"missing. Without it are sent: {', '.join(missing_documents)}. The first would be {first_path}.",
            )
        no_gold: dict[str, str] = {}
        return Split(tuple(questions.values()), no_gold, files_digest(files), results, notes)


def _accepted_results(folder: Path, evaluation: Path, questions: Iterable[str]) -> dict[str, GoldResults]:
    """Return the accepted results of the questions that have any: `<id>.csv`, or `<id>_a.csv`, `<id>_b.csv`, ..."""
    if not folder.is_dir():
        return {}
    if not evaluation.is_file():
        raise DataError(f"{evaluation} is missing: it says which columns of the results in {folder} count.")
    evaluation_rows = {row.text(["instance_id"]): row for row in json_line_rows(evaluation)}
    files_by_question: dict[str, list[Path]] = {}
    for path in shown_files(folder, "*.csv"):
        files_by_question.setdefault(re.sub(r"_[a-z]$", "", path.stem), []).append(path)
    results = {}
    for name in questions:
        if name not in files_by_question:
            continue
        if name not in evaluation_rows:
            raise DataError(f"{evaluation} has no line about {name}, which has results in {folder}.")
        row = evaluation_rows[name]
        files = tuple(files_by_question[name])
        value = row.content.get("ignore_order", False)
        if not isinstance(value, bool):
            raise DataError(f'{row.location}: "ignore_order" must be true or false, not {json.dumps(value)}.')
        results[name] = GoldResults(files, _positions(row, len(files)), ignore_order=value)
    return results


def _positions(row: Row, files: int) -> tuple[tuple[int, ...], ...]:
    """Return from `condition_cols` the positions of the columns that count, for each of a number of files."""
    value: Any = row.content.get("condition_cols") or []
    is_nested = isinstance(value, list) and value and all(isinstance(item, list) for item in value)
    lists = value if is_nested else [value]
    if len(lists) == 1:
        lists = lists * files  # the one list is for every file
    if len(lists) < files or not all(map(_is_list_of_positions, lists)):
        raise DataError(
            f'{row.location}: "condition_cols" must be a list of positions from 0, or one such list for each of the '
            f"{files} accepted results, not {json.dumps(value)}."
        )
    return tuple(map(tuple, lists[:files]))


def _is_list_of_positions(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
