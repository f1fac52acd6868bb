"""Preparation of an evaluation: reads and checks settings, files, databases and keys before any paid call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flows.evaluate.backbones import asks_eliminator, check_candidates, eliminator_settings, writer_settings
from flows.evaluate.demonstrations import (
    QuestionExtras,
    check_demonstrations,
    demonstrations_for,
    with_retriever,
)
from flows.evaluate.recording import check_record
from flows.evaluate.runner import QuestionInputs
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.backbone.pricing import why_unpriced
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
from tasks.core.errors import ConfigurationError
from tasks.core.records import Question
from tasks.core.wording import counted
from tasks.database.database import Database
from tasks.results.mlflow.store import check as check_store
from tasks.results.mlflow.store import find_store
from tasks.scoring.linking import make_oracle
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.pipeline import has_oracle, oracle_settings, shows_descriptions
from tasks.stages import prompts

GENERATED_NOTE = (
    "Column descriptions in the prompts that `crosscheck benchmarks prepare` had a backbone write: {}."
)
ORACLE_NOTE = "An analysis, not a score: parts of the gold SQL were given to the pipeline ({})."


@dataclass(frozen=True)
class Preparation:
    """An evaluation that is ready to start."""

    settings: EvaluationSettings  # settings of the evaluation
    benchmark: Benchmark  # the whole split
    # the selected questions, in the benchmark's order, also those without a database
    questions: tuple[Question, ...]
    databases: Mapping[str, Database] = field(repr=False)  # the opened databases, by id
    # what each question is given besides its database, by question id
    extras: Mapping[str, QuestionExtras] = field(repr=False)
    notes: tuple[str, ...] = ()  # what a user should know, for the summary
    demonstrations: str = ""  # where demonstrations are from, and what was removed, in sentences
    # column descriptions in prompts that a backbone wrote, as `generated_descriptions` names them
    generated: str = ""
    # missing databases whose schema is known, by id. Their questions run only in a replay, through the stages that
    # execute no SQL, since paid answers could not be scored.
    schema_only: Mapping[str, Database] = field(default_factory=dict, repr=False)

    @property
    def inputs(self) -> QuestionInputs:
        """Databases, schemas without a database, and demonstrations."""
        return QuestionInputs({**self.databases, **self.schema_only}, self.extras)

    @property
    def answerable(self) -> tuple[Question, ...]:
        """The selected questions whose database or schema is known."""
        known = self.inputs.databases
        return tuple(question for question in self.questions if question.database_id in known)

    @property
    def executable(self) -> tuple[Question, ...]:
        """The selected questions whose database is present; those with gold are scored."""
        return tuple(question for question in self.questions if question.database_id in self.databases)


def prepare(settings: EvaluationSettings, progress: Progress, *, sends_requests: bool = True) -> Preparation:
    """Prepare an evaluation; files are read again at every call. `sends_requests` is as in `check_backbone`."""
    check_demonstrations(settings)
    settings, retriever = with_retriever(settings)
    check_backbone(settings.backbone, sends_requests=sends_requests)
    eliminator_settings(settings, sends_requests=sends_requests)
    check_candidates(settings, sends_requests=sends_requests)
    prompts.check()
    folders = Folders.of(settings)
    progress.step("Opening MLflow's store")
    check_store(find_store(folders.home))
    progress.step(f"Reading {settings.benchmark.name}")
    benchmark, home = folders.benchmark(settings.benchmark, progress), folders.home.path
    questions = select(benchmark.questions, settings)
    check_record(settings, {question.id for question in questions})
    database_ids = dict.fromkeys(question.database_id for question in questions)
    present = [name for name in database_ids if name not in benchmark.missing]
    replayed = kind_of(settings.backbone).replays
    schemas = [
        name for name in database_ids if replayed and name in benchmark.missing and name in benchmark.schemas
    ]
    if not present and not schemas:
        raise no_database(benchmark, database_ids)
    known = {*present, *schemas}
    _check_gold([question for question in questions if question.database_id in known], benchmark, settings)
    progress.step(f"Reading {counted(len(present), 'database')}")
    databases = {
        name: open_benchmark_database(benchmark, name, settings.pipeline.prompt.sample_rows, home)
        for name in present
    }
    schema_only = {name: schema_only_database(benchmark, name, home) for name in schemas}
    extras, guarded = demonstrations_for(questions, benchmark, settings, progress)
    notes = [*benchmark.notes, *other_content(benchmark, databases)]
    if has_oracle(settings.pipeline):
        extras = _with_oracles(extras, questions, benchmark, {**databases, **schema_only}, settings)
        notes.append(ORACLE_NOTE.format(", ".join(oracle_settings(settings.pipeline))))
    generated = (
        generated_descriptions(benchmark, database_ids, home) if shows_descriptions(settings.pipeline) else ""
    )
    if generated:
        notes.append(GENERATED_NOTE.format(generated))
    user_notes = tuple(note for note in notes if note)
    shown = " ".join(filter(None, (retriever, guarded)))
    return Preparation(
        settings, benchmark, questions, databases, extras, user_notes, shown, generated, schema_only
    )


def _check_gold(questions: Sequence[Question], benchmark: Benchmark, settings: EvaluationSettings) -> None:
    """Refuse settings that give parts of the gold SQL where no question has one; a few without fail by themselves."""
    given = oracle_settings(settings.pipeline)
    if given and not any(question.id in benchmark.gold for question in questions):
        raise ConfigurationError(
            f"{' and '.join(given)} gives parts of the gold SQL to the pipeline, and none of the selected questions of "
            f"{settings.benchmark.name} ({len(questions):,}) has one. Leave that setting out, or select "
            "questions that do."
        )


def _with_oracles(
    extras: Mapping[str, QuestionExtras],
    questions: Sequence[Question],
    benchmark: Benchmark,
    databases: Mapping[str, Database],
    settings: EvaluationSettings,
) -> dict[str, QuestionExtras]:
    """Add the parts of the gold SQL that the settings ask for, for analysis only, to the questions that have a gold."""
    given = {
        question.id: replace(
            extras[question.id],
            oracle=make_oracle(
                benchmark.gold[question.id], databases[question.database_id].schema, settings.pipeline
            ),
        )
        for question in questions
        if question.database_id in databases and question.id in benchmark.gold
    }
    return {**extras, **given}


def selecting_calls(settings: EvaluationSettings) -> int:
    """Return the calls per question, at most, that select among its candidates."""
    candidates = settings.pipeline.candidates
    most = {
        "vote": 0,
        "pairwise": candidates.n * (candidates.n - 1),
        "tournament": candidates.n - 1,
        "merge": 1,
    }
    return most[candidates.select] if candidates.n > 1 else 0


def why_no_budget(backbone: BackboneSettings) -> str:
    """Return why no budget can be kept for a backbone's calls; "" if one can."""
    if not kind_of(backbone).paid:
        return ""
    if backbone.tier == BATCH:
        return "it submits batches, whose cost is known only once they are paid for (set backbone.tier=flex)"
    return why_unpriced(backbone)


def check_budget(
    evaluations: Sequence[EvaluationSettings], budget_usd: float | None, option: str = "--budget"
) -> None:
    """Check a budget: that it is an amount, and that the cost of every evaluation is known. `option` is its name."""
    if budget_usd is None:
        return
    if not budget_usd > 0:
        raise ConfigurationError(f"{option} {budget_usd:g}: it must be more than 0 US dollars.")
    if second := next((each for each in evaluations if asks_eliminator(each)), None):
        raise ConfigurationError(
            f"{option}: {second.pipeline.name} uses an eliminator, a second backbone, whose calls no budget "
            f"counts. Leave {option} out, or set pipeline.eliminator=null."
        )
    unpriced = {name: why for each in evaluations for name, why in _unpriced(each).items()}
    if unpriced:
        raise ConfigurationError(
            f"{option}: what {', '.join(sorted(unpriced))} costs is unknown beforehand, so no budget can be kept: "
            f"{'; '.join(f'{name}: {why}' for name, why in sorted(unpriced.items()))}. Give it prices in its YAML file "
            "(prices: {input: ..., output: ..., as_of: ...}, USD per million tokens)."
        )


def _unpriced(settings: EvaluationSettings) -> dict[str, str]:
    """Return why calls have no price and are not free, by name of the backbone."""
    writers = writer_settings(settings)
    used = (writers.own, *writers.writers) if selecting_calls(settings) else writers.writers
    reasons = {one.name: why_no_budget(one) for one in used}
    return {name: why for name, why in reasons.items() if why}
