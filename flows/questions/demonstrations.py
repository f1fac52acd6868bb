"""Demonstrations for each question, chosen from the training questions, leaks removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.runtime.control import Progress
from tasks.benchmarks.benchmark import Benchmark
from tasks.dac_records import Oracle
from tasks.errors import DataError
from tasks.records import Demonstration, Question
from tasks.retrieval.alignment import GroundedDemonstration, ground
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import dac_of


@dataclass(frozen=True)
class QuestionExtras:
    """Demonstrations and oracle of one question.

    Attributes:
        demonstrations: as many as the pipeline asks for, most similar first.
        grounded: demonstrations with their schemas for DAC's sub-tasks; () for pipelines without DAC.
        oracle: gold answers to DAC's sub-tasks, for analysis; None in ranked runs.
    """

    demonstrations: tuple[Demonstration, ...] = ()
    grounded: tuple[GroundedDemonstration, ...] = ()
    oracle: Oracle | None = None


def demonstrations_for(
    questions: Sequence[Question], benchmark: Benchmark, settings: EvaluationSettings, progress: Progress
) -> tuple[Mapping[str, QuestionExtras], str]:
    """Return each question's demonstrations, by its id, and a sentence on the leak guard's removals.

    Raises:
        DataError: there are no training questions.
        ConfigurationError: the encoder cannot be loaded.
    """
    from tasks.retrieval.demonstrations import DemonstrationIndex
    from tasks.retrieval.leak_guard import without_leaks

    dac, own = dac_of(settings.pipeline), settings.pipeline.demonstrations.k
    wanted = settings.pipeline.demonstrations.model_copy(update={"k": max(own, dac.shots if dac else 0)})
    if wanted.k == 0:
        return {question.id: QuestionExtras() for question in questions}, ""
    guarded = without_leaks(benchmark.demonstrations, benchmark.questions, benchmark.gold_fingerprints)
    if not guarded.pool:
        without = ["pipeline.demonstrations.k=0", *(["pipeline.dac.shots=0"] if dac else [])]
        raise DataError(
            f"{benchmark.settings.name} has no training questions to demonstrate with. "
            f"Do without: {' '.join(f'--set {setting}' for setting in without)}."
        )
    progress.step(f"Choosing {wanted.k} of {len(guarded.pool):,} demonstrations for each question")
    index = DemonstrationIndex(
        guarded.pool,
        wanted,
        cache=Home(Path(settings.home)).embeddings,
        schema_names=benchmark.schema_names if wanted.mask else None,
        progress=progress.step,
    )
    found = index.nearest_all(questions)
    schemas = benchmark.training_schemas(one.database_id for each in found for one in each) if dac else None
    extras = (
        QuestionExtras(each[:own], ground(each, schemas) if schemas is not None else ()) for each in found
    )
    return dict(zip((question.id for question in questions), extras, strict=True)), guarded.sentence
