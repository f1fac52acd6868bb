"""Recognises an evaluation that a finished run has made already, so that its result is shown at once."""

import hashlib
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from flows.evaluate.preparation import Preparation, eliminator_settings, writer_settings
from tasks.backbone.kind import kind_of
from tasks.core.errors import CrosscheckError
from tasks.core.registry import offers_extensions
from tasks.database.engine import engine_of
from tasks.results.build_record import NO_ANSWER
from tasks.results.mlflow.store import find_store
from tasks.results.run_record import DATABASES_CHANGED, KINDS, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_conf

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ("backbones", "benchmarks", "pipelines", "prompts")
"""Folders of `conf` that settings and prompts are read from."""


def inputs_digest(parts: Mapping[str, Any]) -> str:
    """Return the sha256 of values, this release's files, the configuration, Python and the installed dependencies."""
    return digest_of({**parts, "code": source_digest(find_conf()), "versions": _versions()})


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the sha256 of values."""
    text = json.dumps(content, default=_plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _plain(value: Any) -> Any:
    """Return as plain JSON what `json` cannot write; values of other types by their `repr`."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    return repr(value)


@cache
def source_digest(conf: Path, folders: tuple[str, ...] = CONFIGURATION) -> str:
    """Return the sha256 of the source, templates and folders of `conf` in use, the same wherever they are installed."""
    digest = hashlib.sha256()
    for name, file in sorted(_files(conf, folders)):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files(conf: Path, folders: tuple[str, ...]) -> Iterator[tuple[Path, Path]]:
    """Yield each file as its path below the installation or `conf`, and its whole path."""
    for folder in ("tasks", "flows"):
        paths = (path for path in (ROOT / folder).rglob("*") if path.is_file())
        for path in paths:
            # Python writes compiled modules under another name first, at any time.
            if path.parent.name != "__pycache__" and not path.name.startswith("."):
                yield path.relative_to(ROOT), path
    for folder in folders:
        yield from (
            (path.relative_to(conf), path) for path in (conf / folder).glob("[!.]*") if path.is_file()
        )


@cache
def _versions() -> tuple[str, ...]:
    """Return the versions of Python, SQLite and the packages that Crosscheck requires."""
    try:
        required = metadata.requires("crosscheck-sql") or []
    except metadata.PackageNotFoundError:
        required = []
    versions = [sys.version, sqlite3.sqlite_version]
    for requirement in required:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            versions.append(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:  # of an extra that is not installed
            versions.append(f"{name} missing")
    return tuple(versions)


_OWN_FILE = re.compile(r"\.py:\w")
"""What a name of the form `path/to/file.py:attribute` has."""


def may_repeat(settings: EvaluationSettings) -> bool:
    """Return whether the result of an evaluation follows from files and settings that can be compared.

    It does not where code of the user's own is used (a file, an installed package), where a recording is written or
    served, where run times are measured, and where other processes or MLflow are to get something.
    """
    chosen = [getattr(settings, kind).model_dump_json() for kind in KINDS]
    return not (
        settings.record
        or settings.shards > 1
        or settings.tracking.genai_evaluation
        or settings.benchmark.efficiency
        or kind_of(settings.backbone).replays
        or any(_OWN_FILE.search(text) for text in chosen)
        or offers_extensions()
    )


def inputs_of(preparation: Preparation, tags: Mapping[str, str]) -> str:
    """Return the digest of all that decides the result of an evaluation and of the tags that it is to have.

    "" where it does not follow from these: see `may_repeat`, and databases on a server, whose content is known by its
    row counts alone, accepted results in place of golds, and test suites.
    """
    settings, benchmark = preparation.settings, preparation.benchmark
    databases = {**preparation.databases, **preparation.schema_only}
    if (
        not may_repeat(settings)
        or benchmark.results
        or any(engine_of(database.location).server for database in databases.values())
        or any(benchmark.suite_paths(name) for name in preparation.databases)
    ):
        return ""
    used = {question.database_id for question in preparation.questions}
    golds: dict[str, Any] = {
        name: getattr(benchmark, name) for name in ("gold", "written_gold", "further_gold")
    }
    return inputs_digest(
        {
            "settings": {kind: getattr(settings, kind).model_dump(mode="json") for kind in KINDS},
            "models": [writer_settings(settings), eliminator_settings(settings, sends_requests=False)],
            "questions": preparation.questions,
            "demonstrations": preparation.search.chosen_from or preparation.extras,
            "databases": {
                name: (database.digest, database.schema.digest) for name, database in databases.items()
            },
            "missing": benchmark.missing,
            "schemas": {name: schema.digest for name, schema in benchmark.schemas.items() if name in used},
            "keys": {key.name: key.sha256 for key in benchmark.keys},
            "notes": preparation.notes,
            "tags": dict(tags),
            "store": find_store(Home(Path(settings.home))).uri,
            "tracking": settings.tracking.model_dump(mode="json"),
            **golds,
        }
    )


def find_repeated(preparation: Preparation, tags: Mapping[str, str]) -> RunRecord | None:
    """Return the record of the last run of which an evaluation would be an exact repetition; None if there is none.

    That run is complete, no question of it failed, and nothing changed while it ran.
    """
    digest = inputs_of(preparation, tags)
    if not digest:
        return None
    try:
        records = Warehouse(Home(Path(preparation.settings.home)).warehouse).with_inputs(digest)
    except CrosscheckError:
        return None
    for record in records:
        is_complete = record.status == "complete" and set(record.failures) <= {NO_ANSWER}
        if is_complete and DATABASES_CHANGED not in record.tags:
            return record
    return None
