"""Preparation of an evaluation: reads and checks settings, files, databases and backbones before any paid call."""

import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from flows.evaluate.demonstration_search import (
    DemonstrationSearch,
    QuestionExtras,
    QuestionInputs,
    check_demonstrations,
    most_demonstrations,
    with_retriever,
)
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.backbone.kind import check_backbone, kind_of
from tasks.backbone.pricing import why_unpriced
from tasks.backbone.recordings import read_recording
from tasks.backbone.tiers import BATCH
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import (
    generated_descriptions,
    no_database,
    open_benchmark_database,
    other_content,
    schema_only_database,
)
from tasks.benchmarks.selection import select
from tasks.core.errors import ConfigurationError, DataError, first_problem
from tasks.core.files import check_writable, file_digest
from tasks.core.records import Question
from tasks.core.wording import HIDDEN, counted
from tasks.database.database import Database
from tasks.results.mlflow.store import check as check_store
from tasks.results.mlflow.store import find_store
from tasks.results.parameters import automatic_settings, flatten, stored_settings
from tasks.results.run_record import KINDS, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.linking import make_oracle
from tasks.settings.backbone import BackboneSettings
from tasks.settings.choices import HARMLESS
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_conf
from tasks.settings.load import load_backbone_settings, parse_override
from tasks.settings.pipeline import (
    PipelineSettings,
    SchemaFormat,
    SeaSqlSettings,
    oracle_settings,
    shows_descriptions,
)

if TYPE_CHECKING:
    from tasks.backbone.metered import MeteredBackbone
    from tasks.backbone.protocol import Backbone


@dataclass(frozen=True)
class RunBackbones:
    """Settings of the backbones of a run."""

    backbone: BackboneSettings  # the run's; at the temperature of candidates, if it writes them
    writers: tuple[BackboneSettings, ...]  # of candidates, in their turns; a recording stands for all of them
    temperature: float | None = None  # at which the run's backbone selects a candidate; None for its setting


def writer_settings(settings: EvaluationSettings) -> RunBackbones:
    """Return the settings of a run's backbone, and of those that write its candidates.

    Candidates are written by the backbones that the pipeline names, else by the run's own, at the temperature of
    candidates if it is set. A recording writes them all. If the run's backbone is one of the writers, its own
    temperature is kept for the selection of a candidate.
    """
    backbone = settings.backbone
    candidates = settings.pipeline.candidates
    if kind_of(backbone).replays:
        return RunBackbones(backbone, (backbone,))
    writers = tuple(_load_writer(name, backbone) for name in candidates.backbones) or (backbone,)
    if candidates.temperature is None:
        return RunBackbones(backbone, writers)
    update = {"temperature": candidates.temperature}
    warm_writers = tuple(writer.model_copy(update=update) for writer in writers)
    for writer in warm_writers:
        if writer.name == backbone.name:
            return RunBackbones(writer, warm_writers, temperature=backbone.temperature)
    return RunBackbones(backbone, warm_writers)


def _load_writer(name: str, backbone: BackboneSettings) -> BackboneSettings:
    """Return the backbone of a name or file, or the run's own; all have its epoch, by which replies are reused."""
    if name == backbone.name:
        return backbone
    try:
        writer = load_backbone_settings(find_conf(), name)
    except ConfigurationError as error:
        raise ConfigurationError(f"pipeline.candidates.backbones: {error}") from None
    if writer.name == backbone.name:
        return backbone
    return writer if backbone.epoch is None else writer.model_copy(update={"epoch": backbone.epoch})


def check_candidates(settings: EvaluationSettings, *, sends_requests: bool = True) -> None:
    """Check before the first paid call that the candidates can be written, and differ."""
    candidates = settings.pipeline.candidates
    run_backbones = writer_settings(settings)
    writers = run_backbones.writers
    names = [writer.name for writer in writers]
    if duplicates := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f'pipeline.candidates.backbones: "{duplicates[0]}" occurs twice. They take turns: name each once, and '
            "give two files two names."
        )
    if candidates.n < len(candidates.backbones):
        raise ConfigurationError(
            f"pipeline.candidates.n={candidates.n}: {len(candidates.backbones)} backbones are to write candidates. Set "
            f"pipeline.candidates.n to at least {len(candidates.backbones)}."
        )
    for name, writer in zip(candidates.backbones, writers, strict=False):  # none without names
        check_backbone(writer, sends_requests=sends_requests)
        if kind_of(writer).replays and writer is not run_backbones.backbone:
            raise ConfigurationError(
                f'pipeline.candidates.backbones: "{name}" serves a recording, which has the replies of a run of its '
                "own and none to these candidates. Name backbones that can answer."
            )
    if sends_requests:
        check_different(writers, [kind_of(writer).create(writer) for writer in writers])
    if candidates.n > len(writers) and not kind_of(run_backbones.backbone).replays:
        _check_that_candidates_vary(settings, writers)


def _check_that_candidates_vary(settings: EvaluationSettings, writers: Sequence[BackboneSettings]) -> None:
    """Check that no backbone, which writes several candidates, would write the same each time."""
    candidates = settings.pipeline.candidates
    formats = {settings.pipeline.prompt.schema_format, *candidates.schema_formats}
    if candidates.schema_formats and len(formats) >= candidates.n:
        return
    if candidates.demonstrations == "shuffled" and most_demonstrations(settings.pipeline) > 1:
        return
    for writer in writers:
        samples = kind_of(writer).samples
        if samples and writer.temperature != 0:
            continue
        why = "answers at temperature 0" if samples else "always gives a question the same answer"
        warmer = "pipeline.candidates.temperature=0.8, " if samples else ""
        raise ConfigurationError(
            f"pipeline.candidates.n={candidates.n}: {writer.name} {why}, so its candidates would be the same, and each "
            f"would be paid for. Let them differ with one of: --set {warmer}"
            "pipeline.candidates.demonstrations=shuffled (with at least 2 demonstrations), "
            f"pipeline.candidates.schema_formats=[...] (another format than {settings.pipeline.prompt.schema_format} "
            f"for each candidate after the first, of {', '.join(get_args(SchemaFormat))}), "
            'or several backbones, "pipeline.candidates.backbones=[a, b]", each of which writes one.'
        )


def check_different(
    settings: Sequence[BackboneSettings], writers: "Sequence[Backbone | MeteredBackbone]"
) -> None:
    """Check that backbones which write candidates are different models, or have different settings."""
    names: dict[str, str] = {}
    for name, writer in zip((backbone.name for backbone in settings), writers, strict=True):
        earlier_name = names.setdefault(repr(sorted(writer.identity.items())), name)
        if earlier_name != name:
            raise ConfigurationError(
                f'pipeline.candidates.backbones: "{earlier_name}" and "{name}" are one model with the same settings, '
                "so a reply of one counts as the other's. Name one of them."
            )


def asks_eliminator(settings: EvaluationSettings) -> bool:
    """Return whether a run asks a model to eliminate bias; a recording already has its replies."""
    return eliminator_name(settings.pipeline) is not None and not kind_of(settings.backbone).replays


def eliminator_settings(
    settings: EvaluationSettings, *, sends_requests: bool = True
) -> BackboneSettings | None:
    """Return the settings of a run's eliminator; None where it needs none, or a recording has its replies."""
    name = eliminator_name(settings.pipeline)
    if name is None or not asks_eliminator(settings):
        return None
    backbone = load_backbone_settings(find_conf(), name)
    check_backbone(backbone, sends_requests=sends_requests)
    epoch = settings.backbone.epoch
    return backbone if epoch is None else backbone.model_copy(update={"epoch": epoch})


def backbones_of(settings: EvaluationSettings) -> tuple[BackboneSettings, ...]:
    """Return the settings of an evaluation's backbone, and of the others that write candidates."""
    used = writer_settings(settings)
    return (used.backbone, *(writer for writer in used.writers if writer.name != used.backbone.name))


def is_free(settings: EvaluationSettings) -> bool:
    """Return whether all calls of an evaluation are free."""
    eliminator = eliminator_settings(settings, sends_requests=False)
    backbones = (*backbones_of(settings), *([eliminator] if eliminator else ()))
    return not any(kind_of(backbone).paid for backbone in backbones)


def eliminator_name(pipeline: PipelineSettings) -> str | None:
    """Return the name of a pipeline's eliminator; None where it needs none."""
    if not isinstance(pipeline, SeaSqlSettings) or not pipeline.bias_elimination.enabled:
        return None
    return pipeline.eliminator


@dataclass(frozen=True)
class Preparation:
    """An evaluation that is ready to start."""

    settings: EvaluationSettings
    benchmark: Benchmark  # the whole split
    questions: tuple[Question, ...]  # the selected ones, in the benchmark's order, also without a database
    databases: Mapping[str, Database] = field(repr=False)  # the opened ones, by id
    search: DemonstrationSearch = field(repr=False)
    choose: Callable[[], Mapping[str, QuestionExtras]] = field(repr=False)  # returns `extras`, computed once
    notes: tuple[str, ...] = ()  # for the summary
    demonstrations: str = ""  # where demonstrations are from, and what was removed, in sentences
    generated: str = ""  # column descriptions in prompts that a backbone wrote
    # missing databases whose schema is known, by id. Their questions run only in a replay, through the stages that
    # execute no SQL, since paid answers could not be scored.
    schema_only: Mapping[str, Database] = field(default_factory=dict, repr=False)

    @property
    def extras(self) -> Mapping[str, QuestionExtras]:
        """Demonstrations and oracle of each question, by its id; chosen when they are first needed."""
        return self.choose()

    @property
    def inputs(self) -> QuestionInputs:
        """Databases, schemas without a database, and demonstrations."""
        return QuestionInputs({**self.databases, **self.schema_only}, self.extras)

    @property
    def answerable(self) -> tuple[Question, ...]:
        """The selected questions whose database or schema is known."""
        databases = self.inputs.databases
        return tuple(question for question in self.questions if question.database_id in databases)


def prepare(
    settings: EvaluationSettings, progress: Progress, *, sends_requests: bool = True, choose: bool = True
) -> Preparation:
    """Prepare an evaluation; files are read again at every call.

    `sends_requests` is as in `check_backbone`; `choose` is False where demonstrations may not be needed.
    """
    check_demonstrations(settings)
    settings, retriever_note = with_retriever(settings)
    check_backbone(settings.backbone, sends_requests=sends_requests)
    eliminator_settings(settings, sends_requests=sends_requests)
    check_candidates(settings, sends_requests=sends_requests)
    folders = Folders.of(settings)
    progress.step("Opening MLflow's store")
    check_store(find_store(folders.home))
    progress.step(f"Reading {settings.benchmark.name}")
    benchmark = folders.benchmark(settings.benchmark, progress)
    home = folders.home.path
    questions = select(benchmark.questions, settings)
    check_record(settings, {question.id for question in questions})
    database_ids = dict.fromkeys(question.database_id for question in questions)
    present = [name for name in database_ids if name not in benchmark.missing]
    replayed = kind_of(settings.backbone).replays
    schema_names = [
        name for name in database_ids if replayed and name in benchmark.missing and name in benchmark.schemas
    ]
    if not present and not schema_names:
        raise no_database(benchmark, database_ids)
    oracles = oracle_settings(settings.pipeline)
    answerable = [question for question in questions if question.database_id in {*present, *schema_names}]
    # Where only some questions have no gold, these fail by themselves.
    if oracles and not any(question.id in benchmark.gold for question in answerable):
        raise ConfigurationError(
            f"{' and '.join(oracles)} gives parts of the gold SQL to the pipeline, and none of the selected questions "
            f"of {settings.benchmark.name} ({len(answerable):,}) has one. Leave that setting out, or select questions "
            "that do."
        )
    progress.step(f"Reading {counted(len(present), 'database')}")
    rows = settings.pipeline.prompt.sample_rows
    databases = {name: open_benchmark_database(benchmark, name, rows, home) for name in present}
    schema_only = {name: schema_only_database(benchmark, name, home) for name in schema_names}
    search = DemonstrationSearch(benchmark, settings, progress)
    notes = [*benchmark.notes, *other_content(benchmark, databases)]

    @cache
    def choose_once() -> Mapping[str, QuestionExtras]:
        extras = search.choose(questions)
        if oracles:
            return _with_oracles(extras, questions, benchmark, {**databases, **schema_only}, settings)
        return extras

    if oracles:
        parts = ", ".join(oracles)
        notes.append(f"An analysis, not a score: parts of the gold SQL were given to the pipeline ({parts}).")
    generated = ""
    if shows_descriptions(settings.pipeline):
        generated = generated_descriptions(benchmark, database_ids, home)
    if generated:
        notes.append(
            "Column descriptions in the prompts that `crosscheck benchmarks prepare` had a backbone write: "
            f"{generated}."
        )
    if choose:
        choose_once()
    return Preparation(
        settings,
        benchmark,
        questions,
        databases,
        search,
        choose=choose_once,
        notes=tuple(filter(None, notes)),
        demonstrations=" ".join(filter(None, (retriever_note, search.note))),
        generated=generated,
        schema_only=schema_only,
    )


def _with_oracles(
    extras: Mapping[str, QuestionExtras],
    questions: Sequence[Question],
    benchmark: Benchmark,
    databases: Mapping[str, Database],
    settings: EvaluationSettings,
) -> dict[str, QuestionExtras]:
    """Add the parts of the gold SQL that the settings ask for, for analysis only, to the questions that have a gold."""
    with_oracles = dict(extras)
    for question in questions:
        if question.database_id in databases and question.id in benchmark.gold:
            schema = databases[question.database_id].schema
            oracle = make_oracle(benchmark.gold[question.id], schema, settings.pipeline)
            with_oracles[question.id] = replace(extras[question.id], oracle=oracle)
    return with_oracles


def check_record(settings: EvaluationSettings, questions: Collection[str]) -> None:
    """Check that the file of `--record` can be written, and that no other evaluation's recording is lost by it."""
    if settings.record is None:
        return
    path = Path(settings.record)
    check_writable(path, "--record")
    replayed_path = settings.backbone.recording if kind_of(settings.backbone).replays else None
    if replayed_path and path.resolve() == Path(replayed_path).expanduser().resolve():
        raise ConfigurationError(
            f"--record {path}: this is the recording that is replayed. Name another file."
        )
    if path.exists() and not _is_own(path, settings, questions):
        raise ConfigurationError(
            f"--record {path}: the file exists. Only an evaluation in the same working folder, with the same settings "
            "and with at least the same questions, may replace it. Name another file, or remove this one."
        )


def _is_own(path: Path, settings: EvaluationSettings, questions: Collection[str]) -> bool:
    """Return whether a file is the recording of an earlier run with these settings and of no other questions.

    Settings that are "auto" now are not compared: a run stores the value that replaced it.
    """
    try:
        sha256 = file_digest(path)
    except OSError:
        return False
    settings_now = stored_settings({kind: getattr(settings, kind).model_dump(mode="json") for kind in KINDS})
    requested = flatten(settings_now)
    ignored = dict.fromkeys(automatic_settings(requested))  # None on both sides, so that they are equal
    runs = Warehouse(Home(Path(settings.home)).warehouse).recorded(sha256)
    same_settings = any(
        {**flatten(stored.settings), **ignored} == {**requested, **ignored} for stored in runs
    )
    return same_settings and all(reply.question in questions for reply in read_recording(path).replies)


def settings_of_run(
    parent: RunRecord, overrides: Sequence[str], *, data: str, home: str
) -> EvaluationSettings:
    """Return the settings of a run that has ended, over all questions; `overrides` change those in `HARMLESS`."""
    stored: dict[str, Any] = copy.deepcopy(dict(parent.settings))
    name = parent.run_id
    if parent.made_elsewhere:
        raise DataError(
            f"The run {name} scored predictions that were made elsewhere: there is no model to ask again."
        )
    for override in overrides:
        kind, keys, value = parse_override(override)
        key = ".".join((kind, *keys))
        if key not in HARMLESS:
            raise ConfigurationError(
                f"--set {override}: a re-run keeps the settings of its run, or its score would mean something else. "
                f"It may change {', '.join(HARMLESS)}. To change another setting, evaluate again."
            )
        stored.setdefault(kind, {})[keys[0]] = value
    if HIDDEN in json.dumps(stored, default=str):
        raise DataError(
            f"The settings of run {name} held a secret, which was not stored. Evaluate again with the same command: "
            "paid replies are reused."
        )
    whole = len(parent.rows) == parent.questions_in_benchmark
    ids = None if whole else ",".join(row.question.id for row in parent.rows)
    rest = {"questions": ids, "data": data, "home": home}
    try:
        return EvaluationSettings.model_validate_json(json.dumps(stored | rest, default=str))
    except ValidationError as error:
        raise ConfigurationError(
            f"The settings of run {name}{', with --set,' if overrides else ''} are not valid in this release: "
            f"{first_problem(error)}."
        ) from None


def selecting_calls(settings: EvaluationSettings) -> int:
    """Return the calls per question, at most, that select among its candidates."""
    candidates = settings.pipeline.candidates
    n = candidates.n
    calls_by_method = {"vote": 0, "pairwise": n * (n - 1), "tournament": n - 1, "merge": 1}
    return calls_by_method[candidates.select] if n > 1 else 0


def check_budget(
    evaluations: Sequence[EvaluationSettings], budget_usd: float | None, option: str = "--budget"
) -> None:
    """Check a budget: that it is an amount, and that the cost of every evaluation is known. `option` is its name."""
    if budget_usd is None:
        return
    if not budget_usd > 0:
        raise ConfigurationError(f"{option} {budget_usd:g}: it must be more than 0 US dollars.")
    if evaluation := next((evaluation for evaluation in evaluations if asks_eliminator(evaluation)), None):
        raise ConfigurationError(
            f"{option}: {evaluation.pipeline.name} uses an eliminator, a second backbone, whose calls no budget "
            f"counts. Leave {option} out, or set pipeline.eliminator=null."
        )
    unpriced: dict[str, str] = {}
    for evaluation in evaluations:
        unpriced |= _unpriced(evaluation)
    if unpriced:
        raise ConfigurationError(
            f"{option}: what {', '.join(sorted(unpriced))} costs is unknown beforehand, so no budget can be kept: "
            f"{'; '.join(f'{name}: {reason}' for name, reason in sorted(unpriced.items()))}. Give it prices in its "
            "YAML file (prices: {input: ..., output: ..., as_of: ...}, USD per million tokens)."
        )


def _unpriced(settings: EvaluationSettings) -> dict[str, str]:
    """Return the backbones whose calls are paid and have no known price: by name, the reason."""
    run_backbones = writer_settings(settings)
    called = run_backbones.writers
    if selecting_calls(settings):  # by the run's own backbone, which need not be a writer
        called = (run_backbones.backbone, *called)
    reasons = {}
    for backbone in called:
        if kind_of(backbone).paid and backbone.tier == BATCH:
            reasons[backbone.name] = (
                "it submits batches, whose cost is known only once they are paid for (set backbone.tier=flex)"
            )
        elif kind_of(backbone).paid and (reason := why_unpriced(backbone)):
            reasons[backbone.name] = reason
    return reasons
