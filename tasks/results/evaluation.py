"""Identity, settings and provenance of an evaluation, known before its first answer."""

import datetime
import getpass
import json
import re
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from tasks.benchmarks.rows import files_digest
from tasks.results.parameters import redact, secrets_of

Kind = Literal["benchmark", "backbone", "pipeline"]
KINDS: tuple[Kind, ...] = ("benchmark", "backbone", "pipeline")
"""Kinds of settings that an evaluation has."""
REROLLED, ORACLE, TRANSLATED = "rerolled", "oracle", "gold_translated"
"""Tags of runs that must not be ranked, as flows write them."""
DATABASES_CHANGED = "databases_changed"
"""Tag of runs during which databases changed on their server: which."""
COPIES_GOLD = "copies_gold"
"""Key in a run's backbone whose predictions are the text of the gold SQL."""
GENERATED_DESCRIPTIONS = "generated_descriptions"
"""Tag of the runs whose prompts may show column descriptions that a backbone wrote: how many, which, and a digest."""
PREDICTIONS = "predictions"
"""Kind and name of the pipeline of a run that scores a file of predictions made elsewhere."""
NIGHT = "night"
"""Tag of the runs of a nightly run: its name."""
VERDICT = "verdict"
"""Tag of the runs of a nightly run: the night's verdict on it."""
NOISE, REPEAT = "noise", "repeat"
"""Tags of the repeats of a run: the run's id, and the number of the repeat, from 1."""
FINISHED = ("complete", "partial")
"""How a run ended that has a report: every question was asked, or not."""
Unfinished = Literal["interrupted", "failed", "killed"]
"""How a run ended that has no report: the user stopped it, an error ended it, or its process was killed."""


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """One evaluation: one benchmark x backbone x pipeline."""

    run_id: str  # Crosscheck's own id, also where MLflow cannot be reached; sorts by time
    benchmark: str
    backbone: str
    pipeline: str
    # the three models as plain JSON under "benchmark", "backbone" and "pipeline", without secrets
    settings: Mapping[str, Any]
    rule: str  # the headline rule
    revision: str  # revision of the benchmark
    question_file: str  # path of the questions of the evaluated split
    question_sha256: str  # sha256 of that file
    started: datetime.datetime  # when it began, with time zone
    version: str | None = None  # Crosscheck's version, None when it is not installed
    # commit of the checkout that ran, with "-dirty" where it was changed; None outside of one
    git_commit: str | None = None
    # name and version of what executes the queries (functions differ between versions); "" where unknown
    engine: str = ""
    questions_in_benchmark: int | None = None  # how many questions the file has; None when unknown
    # how the benchmark's files are laid out ("bird", "spider"): the form of the submission
    layout: str = "bird"
    user: str | None = None  # login name of the user who started it; None when unknown
    # sha256 of each answer key beside the official one, by name
    keys: Mapping[str, str] = field(default_factory=dict)
    # digest of each database that it used, by the benchmark's name of it
    databases: Mapping[str, str] = field(default_factory=dict)
    # digest of everything that decides its result (`flows.evaluate.repeat`); "" where that is not known
    inputs: str = ""
    # further MLflow tags, e.g. {"sweep": "nightly-2026-11-21"}; `name`, `note` and `changed` among them.
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What was evaluated."""
        return f"{self.backbone} | {self.pipeline}"

    @property
    def translations(self) -> tuple[str, ...]:
        """What sqlglot translated for the score, in sentences: a score with translated SQL is another score."""
        found = (
            ("transpile_gold", "gold SQL translated by sqlglot: not the benchmark's own score"),
            ("transpile_predictions", "answers translated by sqlglot before they were scored"),
        )
        return tuple(sentence for key, sentence in found if self._translation(key))

    def _translation(self, key: str) -> bool:
        return bool((self.settings.get("benchmark") or {}).get(key))

    @property
    def made_elsewhere(self) -> bool:
        """Whether its answers were read from a file of predictions; what they cost is then unknown."""
        return (self.settings.get("pipeline") or {}).get("kind") == PREDICTIONS

    @property
    def label(self) -> str:
        """The run's name in MLflow: the user's, else what was evaluated; of a nightly run, after the night's date."""
        date = self.tags.get(NIGHT, "").partition("T")[0]
        return f"{date} {self.tags.get('name') or self.name}".strip()

    @property
    def why_unranked(self) -> str:
        """Why it must not be ranked, as a clause without its subject; "" when it may be."""
        parts = ((self.settings.get("pipeline") or {}).get("dac") or {}).get("oracle", "none")
        if ORACLE in self.tags or parts != "none":
            return "saw parts of the gold SQL (an oracle analysis)"
        if self._translation("transpile_gold"):
            return "was scored against gold SQL that sqlglot has translated"
        if (self.settings.get("backbone") or {}).get(COPIES_GOLD):
            return "has predictions that are the text of the gold SQL"
        if REROLLED in self.tags:
            return "had questions asked again after their answers were judged (re-rolled)"
        return ""


def new_run_id() -> str:
    """Return a new run id: the time in UTC and six random hex digits, e.g. "20261121-020000-3f9a1c"."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def is_run_id(text: str) -> bool:
    """Return whether a text has the form of a run id.

    >>> is_run_id("20261121-020000-3f9a1c"), is_run_id("../20261121-020000-3f9a1c")
    (True, False)
    """
    return re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", text, re.ASCII) is not None


def describe(
    settings: Mapping[Kind, Mapping[str, Any]],
    question_files: Sequence[Path],
    *,
    engine: str,
    questions_in_benchmark: int | None = None,
    tags: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    databases: Mapping[str, str] | None = None,
    inputs: str = "",
) -> EvaluationRun:
    """Describe an evaluation by the settings of benchmark, backbone and pipeline, as plain JSON.

    The question files are those of the evaluated split; all else is as in `EvaluationRun`.
    """
    benchmark, backbone, pipeline = (settings[kind] for kind in KINDS)
    digest = files_digest(question_files)
    translated = {TRANSLATED: str(benchmark.get("dialect"))} if benchmark.get("transpile_gold") else {}
    return EvaluationRun(
        run_id=new_run_id(),
        benchmark=str(benchmark["name"]),
        backbone=str(backbone["name"]),
        pipeline=str(pipeline["name"]),
        settings=stored_settings(settings),
        rule=str(benchmark["rule"]),
        revision=str(benchmark["revision"]),
        question_file=", ".join(map(str, question_files)),
        question_sha256=digest,
        started=datetime.datetime.now(datetime.UTC),
        version=_version(),
        git_commit=_git_commit(),
        engine=engine,
        questions_in_benchmark=questions_in_benchmark,
        layout=str(benchmark.get("layout", "bird")),
        user=user_name(),
        keys=keys or {},
        databases=databases or {},
        inputs=inputs,
        tags={**(tags or {}), **translated},
    )


def stored_settings(settings: Mapping[Kind, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the settings of benchmark, backbone and pipeline as a run stores them: plain JSON, without secrets."""
    plain = json.loads(json.dumps(settings, default=str))
    stored: Mapping[str, Any] = redact(plain, *secrets_of(settings["backbone"]))
    return stored


def _version() -> str | None:
    try:
        return metadata.version("crosscheck-sql")
    except metadata.PackageNotFoundError:
        return None


def user_name() -> str | None:
    """Return the login name of the user; None where there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
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
