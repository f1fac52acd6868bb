"""Spider 2.0-lite's layout (Lei et al. 2024): its tasks on SQLite.

- `spider2-lite-local.jsonl` (or `spider2-lite.jsonl` with all tasks): a JSON object per line with instance_id, db,
  question and external_knowledge, the name of a document or null. Tasks of other engines are left out.
- `documents/*.md`: the external knowledge, given to a pipeline as a question's evidence.
- `gold/spider2lite_eval.jsonl`: per task, `condition_cols` and `ignore_order`.
- `gold/exec_result/<instance_id>.csv`, or `<instance_id>_a.csv`, `_b.csv`, ...: accepted results. There is no gold SQL.
- `databases/<db>.sqlite`.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tasks.benchmarks.layouts.base import GoldResults, Layout, Split
from tasks.benchmarks.rows import Row, files_digest, json_line_rows, read_text
from tasks.core.errors import DataError
from tasks.core.files import shown_files
from tasks.core.records import Question
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.kinds import LAYOUTS

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
    """Spider 2.0-lite's layout."""

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
        documents, missing = folder / settings.documents, {}
        questions: dict[str, Question] = {}
        for row in rows:
            name = row.text(["instance_id"])
            if name in questions:
                raise DataError(f'{row.place}: the task "{name}" is there twice. Take one out.')
            document = row.optional_text("external_knowledge") or ""
            path = documents / Path(document).name
            if document and not path.is_file():
                missing[name] = path
            evidence = read_text(path).strip() if document and path.is_file() else ""
            questions[name] = Question(name, row.text(["question"]), row.folder_name("db"), evidence)
        results = _results(folder / settings.results, folder / settings.evaluation, questions)
        return Split(tuple(questions.values()), {}, files_digest(files), results, tuple(_about(missing)))


def _about(missing: dict[str, Path]) -> Iterable[str]:
    if missing:
        first = next(iter(missing.values()))
        yield (
            f"{len(missing):,} questions need a document of external knowledge that is missing. Without it are sent: "
            f"{', '.join(missing)}. The first would be {first}."
        )


def _results(folder: Path, evaluation: Path, questions: Iterable[str]) -> dict[str, GoldResults]:
    """Return the accepted results of the questions that have any."""
    if not folder.is_dir():
        return {}
    if not evaluation.is_file():
        raise DataError(f"{evaluation} is missing: it says which columns of the results in {folder} count.")
    standards = {row.text(["instance_id"]): row for row in json_line_rows(evaluation)}
    by_task: dict[str, list[Path]] = {}
    for path in shown_files(folder, "*.csv"):
        by_task.setdefault(re.sub(r"_[a-z]$", "", path.stem), []).append(path)
    results = {}
    for name in questions:
        if name not in by_task:
            continue
        if name not in standards:
            raise DataError(f"{evaluation} has no line about {name}, which has results in {folder}.")
        row, files = standards[name], tuple(by_task[name])
        order = row.content.get("ignore_order", False)
        if not isinstance(order, bool):
            raise DataError(f'{row.place}: "ignore_order" must be true or false, not {json.dumps(order)}.')
        results[name] = GoldResults(files, _columns(row, len(files)), order)
    return results


def _columns(row: Row, files: int) -> tuple[tuple[int, ...], ...]:
    """Read `condition_cols`: positions for every file, or a list of them for each file."""
    value: Any = row.content.get("condition_cols") or []
    per_file = isinstance(value, list) and value and all(isinstance(item, list) for item in value)
    lists = (value * files if len(value) == 1 else value) if per_file else [value] * files
    if len(lists) < files or not all(map(_are_positions, lists)):
        raise DataError(
            f'{row.place}: "condition_cols" must be a list of positions from 0, or one such list for each of the '
            f"{files} accepted results, not {json.dumps(value)}."
        )
    return tuple(map(tuple, lists[:files]))


def _are_positions(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
