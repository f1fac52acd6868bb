"""Makes a benchmark of one's own, in BIRD's layout, from questions with their SQL and databases."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from tasks.benchmarks.rows import DATABASE_NAMES, Row, files_digest, read_objects
from tasks.core.errors import ConfigurationError, DataError
from tasks.core.files import atomic_write_text
from tasks.core.wording import counted
from tasks.database.database import database_name, locate, open_database
from tasks.database.engine import engine_of
from tasks.database.location import Location

SQL_NAMES = ("sql", "query", "gold_sql", "gold", "gold_query")


@dataclass(frozen=True, slots=True)
class MadeBenchmark:
    """A benchmark that was made: its YAML file, and the number of its questions and databases."""

    file: Path
    questions: int
    databases: int


def make_benchmark(
    question_file: Path,
    database_paths: Sequence[str],
    output: Path,
    rule: str,
    sql_names: Sequence[str] = SQL_NAMES,
) -> MadeBenchmark:
    """Write the questions, copies of the databases and the YAML file into a new folder, `output`.

    Everything is read and checked before anything is written. SQLite databases are copied; databases of another
    engine stay where they are, and the YAML file has their URL. `rule` is the comparison rule, as in `benchmark.rule`.
    `sql_names` are the columns that may hold the gold SQL of a question; the first that it has counts.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ConfigurationError(f"--output {output}: it exists and is not empty. Name a new folder.")
    databases = _databases(database_paths)
    engine = engine_of(next(iter(databases.values())))
    url = "" if engine.copied else _common_url(databases)
    rows = list(read_objects(question_file))
    questions = [_question(row, tuple(databases), sql_names) for row in rows]
    if not questions:
        raise DataError(f"{question_file} holds no question.")
    _demand_unique_ids(rows, questions)
    folder = output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if engine.copied:
        for name, location in databases.items():
            target = folder / "dev_databases" / name / f"{name}.sqlite"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(location.path, target)
    atomic_write_text(folder / "dev.json", json.dumps(questions, ensure_ascii=False, indent=1) + "\n")
    settings = {
        "description": f"{counted(len(questions), 'question')} of {question_file.name}",
        "layout": "bird",
        "folder": "./",
        "tables": "",
        "demonstrations": False,
        **({"url": url} if url else {}),
        "dialect": engine.name,
        "revision": files_digest([question_file])[:12],
        "rule": rule,
    }
    file = output / f"{folder.name}.yaml"
    atomic_write_text(file, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    return MadeBenchmark(file, len(questions), len(databases))


def _databases(paths: Sequence[str]) -> dict[str, Location]:
    """Return the databases by name, after checking that they exist, are readable and of one engine."""
    databases: dict[str, Location] = {}
    for text in paths:
        location = locate(text)
        name = database_name(location)
        if name in databases:
            raise ConfigurationError(
                f'--database {location}: "{name}" is also the name of {databases[name]}. Rename one.'
            )
        first = next(iter(databases.values()), location)
        if first.engine != location.engine:
            raise ConfigurationError(
                f"--database {location}: is of {location.engine}, and {first} of {first.engine}. One benchmark has the "
                "databases of one engine."
            )
        if not engine_of(location).server and not location.path.exists():
            raise DataError(f"--database {location} does not exist. Check the path.")
        open_database(location, name, sample_rows=0)
        databases[name] = location
    return databases


def _common_url(databases: dict[str, Location]) -> str:
    """Return the URL of all databases of a benchmark, with `{database}` in the place of a database's name."""
    engine = engine_of(next(iter(databases.values())))
    # the address of a database on a server is a URL already, that of a file is its path
    scheme = "" if engine.server else f"{engine.schemes[0]}:///"
    urls = []
    for name, location in databases.items():
        written_name = quote(name, safe="") if engine.server else name
        # the last occurrence is the database; an earlier one may be part of a user, host or folder
        head, separator, tail = location.address.rpartition(written_name)
        urls.append(f"{scheme}{head}{{database}}{tail}" if separator else f"{scheme}{location}")
    if len(set(urls)) > 1:
        raise ConfigurationError(
            f"--database: {' and '.join(dict.fromkeys(urls))} differ in more than the database's name. "
            "Databases of one benchmark are on one server, or in one folder."
        )
    return urls[0]


def _question(row: Row, databases: Sequence[str], sql_names: Sequence[str]) -> dict[str, Any]:
    """Return a question as an object of BIRD's dev.json, after checking that its row has all that is needed."""
    # Spider has the parsed query as an object under "sql", beside its text under "query"
    cells = {name: value for name, value in row.content.items() if not isinstance(value, dict)}
    row = replace(row, content=cells)
    empty, missing = [], []
    for alternatives in (("question",), sql_names):
        present = [name for name in alternatives if name in cells]
        if not present:
            missing.append(" or ".join(alternatives))
        elif not any(cells[name] for name in present):
            empty.append(present[0])
    if missing:
        raise DataError(
            f"{row.location}: there is no {' and no '.join(missing)}; it has {', '.join(cells) or 'nothing'}."
        )
    if empty:
        which = f"the cell {empty[0]} is" if len(empty) == 1 else f"the cells {' and '.join(empty)} are"
        raise DataError(f"{row.location}: {which} empty. Fill in what is missing, or take the question out.")
    database_name = row.first(DATABASE_NAMES)
    if database_name is None and len(databases) > 1:
        raise DataError(f"{row.location}: names no database (db_id), and there are {', '.join(databases)}.")
    database = databases[0] if database_name is None else str(database_name)
    if database not in databases:
        raise DataError(
            f'{row.location}: is about the database "{database}", which is not given. Add its file with --database; '
            f"given are {', '.join(databases)}."
        )
    golds = row.texts(sql_names)
    question: dict[str, Any] = {
        "question_id": str(row.position)
        if row.content.get(row.id_key or "") in (None, "")
        else row.question_id,
        "db_id": database,
        "question": row.text(["question"]),
        "evidence": row.optional_text("evidence") or "",
        "SQL": golds[0] if len(golds) == 1 else golds,
    }
    if difficulty := row.optional_text("difficulty"):
        question["difficulty"] = difficulty
    return question


def _demand_unique_ids(rows: Sequence[Row], questions: Sequence[dict[str, Any]]) -> None:
    rows_by_id: dict[str, Row] = {}
    for row, question in zip(rows, questions, strict=True):
        key = question["question_id"]
        if key in rows_by_id:
            raise DataError(
                f'{row.file}, {row.where}: the question id "{key}" is also that of {rows_by_id[key].where}. Give each '
                "question an id of its own, or leave all ids out: then the questions are numbered from 0."
            )
        rows_by_id[key] = row
