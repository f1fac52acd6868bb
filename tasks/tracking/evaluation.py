"""Identity, settings and provenance of an evaluation, known before its first answer."""

import datetime
import getpass
import hashlib
import json
import os
import secrets
import sqlite3
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tasks.errors import DataError
from tasks.tracking.parameters import redact


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """One evaluation: one benchmark x backbone x pipeline.

    Attributes:
        run_id: Crosscheck's own id, also where MLflow cannot be reached; sorts by time.
        benchmark, backbone, pipeline: their names.
        settings: the three models as plain JSON under "benchmark", "backbone" and "pipeline", without secrets.
        rule: the headline rule.
        revision: revision of the benchmark.
        question_file: path of the questions of the evaluated split.
        question_sha256: sha256 of that file.
        started: when it began, with time zone.
        version: Crosscheck's version, None when it is not installed.
        git_commit: commit of the checkout that ran, with "-dirty" where it was changed; None outside of one.
        sqlite_version: of the SQLite that executes the queries (functions differ between versions).
        questions_in_benchmark: how many questions the file has; None when unknown.
        layout: how the benchmark's files are laid out ("bird", "spider"): the form of the submission.
        user: login name of the user who started it; None when unknown.
        tags: further MLflow tags, e.g. {"sweep": "nightly-2026-11-21"}.
    """

    run_id: str
    benchmark: str
    backbone: str
    pipeline: str
    settings: Mapping[str, Any]
    rule: str
    revision: str
    question_file: str
    question_sha256: str
    started: datetime.datetime
    version: str | None = None
    git_commit: str | None = None
    sqlite_version: str = sqlite3.sqlite_version
    questions_in_benchmark: int | None = None
    layout: str = "bird"
    user: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The run's name in MLflow."""
        return f"{self.backbone} | {self.pipeline}"


def as_json(run: EvaluationRun) -> str:
    """Write an evaluation as JSON text."""
    return json.dumps(_runs().dump_python(run, mode="json"))


def run_from_json(text: str) -> EvaluationRun:
    """Read what `as_json` wrote."""
    return _runs().validate_python(json.loads(text))


@cache
def _runs() -> TypeAdapter[EvaluationRun]:
    return TypeAdapter(EvaluationRun)


def new_run_id(now: datetime.datetime | None = None) -> str:
    """Return a new run id: the time in UTC and six random hex digits, e.g. "20261121-020000-3f9a1c"."""
    moment = now or datetime.datetime.now(datetime.UTC)
    return f"{moment.astimezone(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def describe(
    benchmark: Mapping[str, Any],
    backbone: Mapping[str, Any],
    pipeline: Mapping[str, Any],
    question_file: Path,
    *,
    run_id: str | None = None,
    questions_in_benchmark: int | None = None,
    tags: Mapping[str, str] | None = None,
) -> EvaluationRun:
    """Describe an evaluation by its three settings, as plain JSON (`model_dump(mode="json")`).

    Raises:
        DataError: the question file cannot be read.
    """
    digest = sha256_of(question_file)
    settings = {"benchmark": dict(benchmark), "backbone": dict(backbone), "pipeline": dict(pipeline)}
    key_name = str(backbone.get("api_key_env") or "")
    return EvaluationRun(
        run_id=run_id or new_run_id(),
        benchmark=str(benchmark["name"]),
        backbone=str(backbone["name"]),
        pipeline=str(pipeline["name"]),
        settings=redact(json.loads(json.dumps(settings, default=str)), os.environ.get(key_name, "")),
        rule=str(benchmark["rule"]),
        revision=str(benchmark["revision"]),
        question_file=str(question_file),
        question_sha256=digest,
        started=datetime.datetime.now(datetime.UTC),
        version=_version(),
        git_commit=_git_commit(),
        questions_in_benchmark=questions_in_benchmark,
        layout=str(benchmark.get("layout", "bird")),
        user=_user(),
        tags=dict(tags or {}),
    )


def sha256_of(question_file: Path) -> str:
    """Return the sha256 of a question file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return hashlib.sha256(question_file.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"The questions {question_file} cannot be read: {error.strerror}.") from error


def _version() -> str | None:
    try:
        return metadata.version("crosscheck-sql")
    except metadata.PackageNotFoundError:
        return None


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user may have no name
        return None


def _git_commit() -> str | None:
    """Return the commit of the checkout this code runs from; None without git or outside of a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
