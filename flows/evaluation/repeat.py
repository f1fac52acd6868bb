"""Recognises an evaluation that a finished run has made already, so that its result is shown at once."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.questions.candidate_backbones import writer_settings
from flows.questions.eliminator import eliminator_settings
from flows.questions.preparation import Preparation
from tasks.backbone.kinds.kind import kind_of
from tasks.core.errors import CrosscheckError
from tasks.core.registry import offers_extensions
from tasks.database.engine import engine_of
from tasks.scoring.build_report import NO_ANSWER
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.tracking.evaluation import DATABASES_CHANGED, KINDS
from tasks.tracking.inputs import inputs_digest
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.run_record import RunRecord
from tasks.tracking.warehouse.runs import Warehouse

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

    That is: the settings that were asked for, also of the models that a pipeline names; questions, demonstrations,
    descriptions and schemas with their samples; the content of the databases; golds and answer keys; the code, the
    prompts, the configuration and the versions of what is installed; and the store of MLflow.

    "" where it does not follow from these: see `may_repeat`, and databases on a server, whose content is known by its
    row counts alone, accepted results in the place of golds, and test suites.
    """
    settings, benchmark = preparation.settings, preparation.benchmark
    databases = {**preparation.databases, **preparation.schema_only}
    if (
        not may_repeat(settings)
        or benchmark.results
        or any(engine_of(each.location).server for each in databases.values())
        or any(benchmark.suite_paths(name) for name in preparation.databases)
    ):
        return ""
    golds: dict[str, Any] = {
        name: getattr(benchmark, name) for name in ("gold", "written_gold", "further_gold")
    }
    return inputs_digest(
        {
            "settings": {kind: getattr(settings, kind).model_dump(mode="json") for kind in KINDS},
            "models": [writer_settings(settings), eliminator_settings(settings, sends_requests=False)],
            "questions": preparation.questions,
            "extras": preparation.extras,
            "databases": {name: (each.digest, each.schema.digest) for name, each in databases.items()},
            "missing": benchmark.missing,
            "schemas": {name: each.digest for name, each in benchmark.schemas.items()},
            "keys": {key.name: key.sha256 for key in benchmark.keys},
            "notes": preparation.notes,
            "tags": dict(tags),
            "store": find_store(Home(Path(settings.home))).uri,
            "tracking": settings.tracking.model_dump(mode="json"),
            **golds,
        }
    )


def is_like_a_run(settings: EvaluationSettings) -> bool:
    """Return whether any finished run has the names of an evaluation: only then is it worth looking closer."""
    names = tuple(getattr(settings, kind).name for kind in KINDS)
    try:
        runs = Warehouse(Home(Path(settings.home)).warehouse).runs()
    except CrosscheckError:  # the evaluation itself says what is wrong with it
        return False
    return any(run.is_finished and (run.benchmark, run.backbone, run.pipeline) == names for run in runs)


def find_repeated(preparation: Preparation, tags: Mapping[str, str]) -> RunRecord | None:
    """Return the record of the last run of which an evaluation would be an exact repetition; None if there is none.

    That run is complete, no question of it failed, and nothing changed while it ran.
    """
    digest = inputs_of(preparation, tags)
    if not digest:
        return None
    try:
        found = Warehouse(Home(Path(preparation.settings.home)).warehouse).with_inputs(digest)
    except CrosscheckError:
        return None
    whole = (
        each.record
        for each in found
        if each.record.status == "complete"
        and set(each.record.failures) <= {NO_ANSWER}
        and DATABASES_CHANGED not in each.run.tags
    )
    return next(whole, None)
