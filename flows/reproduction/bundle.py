"""Import of a bundle: the answers of a run that was made elsewhere are scored again, without a model."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from flows.report.result import EvaluationResult
from flows.reproduction.bundle_differences import (
    Difference,
    Figures,
    compare_figures,
    other_data,
    other_verdicts,
)
from flows.runtime.control import Progress
from flows.runtime.folder_use import watched
from flows.runtime.folders import Folders
from flows.scoring.keys import check_keys
from flows.scoring.run import score_all
from flows.scoring.scorer import Scorable, Scorer
from flows.scoring.tracking import log_score
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import no_database, open_benchmark_database
from tasks.core.errors import ConfigurationError, DataError
from tasks.core.files import atomic_write
from tasks.core.registry import is_in_file
from tasks.core.wording import counted, shorten
from tasks.database.database import digests_of, product_of
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.leak_guard import CHECKED
from tasks.scoring.build_report import as_reported
from tasks.scoring.candidate_bill import CandidateSetup
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import RULES
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.metric import METRICS
from tasks.scoring.report import Report
from tasks.settings.assemble import benchmark_settings
from tasks.settings.backbone import Prices
from tasks.settings.benchmark import BenchmarkSettings, key_reference
from tasks.settings.load import known_names
from tasks.tracking.build_record import record_of
from tasks.tracking.bundle.contents import Bundle, read_bundle
from tasks.tracking.evaluation import IMPORTED, NIGHT, EvaluationRun
from tasks.tracking.mlflow.package import Completion
from tasks.tracking.warehouse.runs import Warehouse

_OF_THE_SCORE = (
    "rule",
    "timeout_s",
    "test_suite",
    "soft_f1",
    "dialect",
    "transpile_gold",
    "find_undecided",
    "quarantine",
    "metrics",
    "answer_keys",
)
"""Settings that decide a score. They are the bundle's; where files, databases and code are is decided here."""
_KEPT = ("forecast", "rerun", "recorded", "replay", "predictions", "judge", "fatal")
"""Fields of the record that are no result of scoring."""


@dataclass(frozen=True)
class ImportChoice:
    """A bundle as a user names it."""

    file: Path
    sha256: str | None = None  # expected digest of its manifest
    # name or file of the benchmark's settings; None: the bundle's, if known here
    benchmark: str | None = None
    overrides: tuple[str, ...] = ()  # `benchmark.key=value`
    replies: Path | None = None  # file for the replies, a recording


@dataclass(frozen=True)
class ImportedRun:
    """A run that was scored again."""

    bundle: Bundle = field(repr=False)
    result: EvaluationResult = field(repr=False)
    figures: Figures  # figures of both
    differences: tuple[Difference, ...]  # what else is not as it was


def import_bundle(choice: ImportChoice, folders: Folders, progress: Progress) -> ImportedRun:
    """Score the answers of a bundle and keep them as a run of this working folder.

    Raises:
        CrosscheckError: the bundle cannot be read or was changed, or its benchmark is not here.
    """
    bundle = read_bundle(choice.file)
    run = bundle.run
    for name in (run.benchmark, run.backbone, run.pipeline):
        if is_in_file(name) or name.endswith((".yaml", ".yml")):
            raise DataError(
                f'{choice.file} is of "{name}", which is a file and no name. Nothing is read from it.'
            )
    if choice.sha256 and choice.sha256.lower() != bundle.digest:
        raise DataError(
            f"{choice.file} is not the bundle of --sha256: the sha256 of its manifest is {bundle.digest}, not "
            f"{choice.sha256}. Have it exported again."
        )
    if any(known.run_id == run.run_id for known in Warehouse(folders.home.warehouse).runs()):
        raise ConfigurationError(
            f"The working folder {folders.home.path} has the run {run.run_id} already. Import the bundle into another "
            "one: --home FOLDER."
        )
    if choice.replies and (bundle.replies is None or choice.replies.exists()):
        why = "exists" if bundle.replies is not None else "cannot be written: the bundle has no replies"
        raise ConfigurationError(
            f"--replies {choice.replies} {why}. Name another file, or leave the option out."
        )
    rules = _rules(bundle)
    progress.step(f"Reading {run.benchmark}")
    settings = _settings(bundle, choice)
    benchmark = folders.benchmark(settings, progress)
    scorable = _scorable(bundle, benchmark, progress)
    with watched(folders.home):
        report = asyncio.run(_score(bundle, scorable, rules, folders, progress))
        here = _described(bundle, scorable)
        facts = {name: getattr(bundle.record, name) for name in _KEPT}
        status, prefect = bundle.record.status, bundle.record.prefect
        ours = record_of(here, report, status)
        facts["remarks"] = (*ours.remarks, *_kept_remarks(bundle))
        figures = compare_figures(bundle.record, ours)
        differences = (*other_data(bundle, here, scorable), *other_verdicts(bundle, report))
        progress.step("Logging to MLflow")
        notes = [*bundle.record.notes, _note(bundle, figures, differences), *progress.notes]
        seconds = bundle.record.seconds
        completion = Completion(status=status, seconds=seconds, prefect=prefect, facts=facts)
        result = log_score(folders.home, here, report, completion, notes)
    if choice.replies and bundle.replies is not None:
        _write_replies(choice.replies, bundle.replies)
    return ImportedRun(bundle, result, figures, differences)


def _rules(bundle: Bundle) -> tuple[str, ...]:
    """Return the rules that the run was judged by, that of the headline among them."""
    rules = tuple(name for name, score in bundle.record.scores.items() if not score.variant)
    if unknown := [name for name in (*rules, bundle.run.rule) if name not in RULES]:
        raise DataError(
            f"{bundle.file} was judged by the rule {unknown[0]}, which this release does not have. Valid: "
            f"{', '.join(RULES)}."
        )
    return rules or (bundle.run.rule,)


def _settings(bundle: Bundle, choice: ImportChoice) -> BenchmarkSettings:
    """Return the settings of the benchmark: files and databases as here, what decides the score as in the bundle.

    Nothing in a bundle names a file, a server or code that is opened here.
    """
    name = choice.benchmark or bundle.run.benchmark
    if choice.benchmark is None and name not in known_names("benchmark"):
        raise ConfigurationError(
            f'{bundle.file}: the benchmark "{name}" has no settings here. Name its file: --benchmark FILE.yaml.'
        )
    theirs = dict(bundle.run.settings.get("benchmark") or {})
    theirs["metrics"] = [each for each in theirs.get("metrics", ()) if each in METRICS.names()]
    known = known_names("benchmark")
    theirs["answer_keys"] = [each for each in theirs.get("answer_keys", ()) if key_reference(each) in known]
    taken = (f"benchmark.{key}={json.dumps(theirs[key])}" for key in _OF_THE_SCORE if key in theirs)
    return benchmark_settings(name, (*taken, *choice.overrides))


def _scorable(bundle: Bundle, benchmark: Benchmark, progress: Progress) -> Scorable:
    ids = {each.id for each in bundle.questions}
    questions = [question for question in benchmark.questions if question.id in ids]
    if absent := ids - {question.id for question in questions}:
        raise DataError(
            f"{bundle.file}: {counted(len(absent), 'question')} of the run cannot be found in the benchmark "
            f"{benchmark.settings.name}: {shorten(sorted(absent), 5)}. It is another benchmark or revision: name the "
            "right one with --benchmark or --data."
        )
    names = dict.fromkeys(question.database_id for question in questions)
    present = [name for name in names if name not in benchmark.missing]
    if not present:
        raise no_database(benchmark, names)
    progress.step(f"Reading {counted(len(present), 'database')}")
    databases = {name: open_benchmark_database(benchmark, name, 0) for name in present}
    # answers are in the bundle as they were scored, after a translation
    plain = benchmark.settings.model_copy(update={"transpile_predictions": "", "efficiency": False})
    return Scorable(replace(benchmark, settings=plain), questions, databases)


async def _score(
    bundle: Bundle, scorable: Scorable, rules: tuple[str, ...], folders: Folders, progress: Progress
) -> Report:
    outcomes = {each.id: each.outcome for each in bundle.questions}
    opinions = {each.id: each.opinion for each in bundle.questions}
    async with SqlWorkers() as workers:
        with VerdictCache(folders.home.verdicts, workers.limits) as cache:
            judge = Judge(workers, rules, scorable.benchmark.settings.timeout_s, cache)
            await check_keys(scorable.benchmark, scorable.questions, scorable.databases, workers, progress)
            scorer = Scorer(scorable, judge, headline=bundle.run.rule, progress=progress)
            progress.step(f"Scoring {counted(len(outcomes), 'answer')}")
            await score_all(scorer, scorable.questions, outcomes)
    unlinked = any(
        outcomes[each.id].links for each in scorable.questions if each.database_id not in scorable.databases
    )
    report = scorer.report(link_all=unlinked, candidates=_candidates(bundle))
    rows = tuple(replace(row, opinion=opinions[row.question.id]) for row in report.rows)
    report = replace(report, rows=rows)
    return as_reported(report) if bundle.run.made_elsewhere else report


def _candidates(bundle: Bundle) -> CandidateSetup | None:
    """Return how the candidates of the run were made; None where there is one.

    The settings are read as data: as settings, they could name a file with code.
    """
    pipeline, backbone = (bundle.run.settings.get(kind) or {} for kind in ("pipeline", "backbone"))
    wanted, prices = pipeline.get("candidates") or {}, backbone.get("prices")
    if not isinstance(n := wanted.get("n"), int) or n < 2:
        return None
    try:
        own = Prices.model_validate_json(json.dumps(prices)) if prices else None
    except ValidationError:
        own = None
    writers = (None,) if wanted.get("backbones") else (own,)
    return CandidateSetup(n, str(wanted.get("select")), writers, own)


def _described(bundle: Bundle, scorable: Scorable) -> EvaluationRun:
    """Return the run with the data that it was scored on here."""
    benchmark, run = scorable.benchmark, bundle.run
    translated = (run.settings.get("benchmark") or {}).get("transpile_predictions", "")
    settings = benchmark.settings.model_dump(mode="json") | {"transpile_predictions": translated}
    return replace(
        run,
        settings={**run.settings, "benchmark": settings},
        revision=benchmark.settings.revision,
        question_file=", ".join(map(str, benchmark.question_files)),
        question_sha256=benchmark.digest,
        engine=product_of(scorable.databases),
        keys={key.name: key.sha256 for key in benchmark.keys},
        databases=digests_of(scorable.databases),
        # nights here neither count nor are compared with a night elsewhere
        tags={name: text for name, text in run.tags.items() if name != NIGHT} | {IMPORTED: bundle.digest},
    )


def _kept_remarks(bundle: Bundle) -> tuple[str, ...]:
    """Return the remark on the demonstrations, which no score follows from."""
    return tuple(remark for remark in bundle.record.remarks if remark.startswith(CHECKED))


def _note(bundle: Bundle, figures: Figures, differences: tuple[Difference, ...]) -> str:
    equal = (
        f"{figures.compared - len(figures.differing):,} of its {figures.compared:,} figures are equal here"
    )
    others = f", and {counted(len(differences), 'further difference')} found" if differences else ""
    return f"Imported from a bundle (sha256 {bundle.digest}) and scored again: {equal}{others}."


def _write_replies(path: Path, replies: bytes) -> None:
    try:
        with atomic_write(path) as draft:
            draft.write_bytes(replies)
    except OSError as error:
        raise ConfigurationError(
            f"--replies {path} cannot be written: {error.strerror}. The run is imported."
        ) from None
