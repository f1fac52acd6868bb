"""Demonstrations for each question, chosen from the training questions, leaks removed."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.expected_files import check_files
from tasks.core.errors import DataError
from tasks.core.records import Demonstration, Oracle, Question
from tasks.database.database import Database
from tasks.retrieval.alignment import GroundedDemonstration, best_covered, ground
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings
from tasks.settings.pipeline import PipelineSettings, dac_of

CANDIDATES_PER_SHOT = 10
"""Nearest training questions, per one that is shown, among which well aligned ones are looked for."""
SPIDER = "spider-dev"
"""The benchmark whose training questions the DAC paper has alignments of."""


@dataclass(frozen=True)
class QuestionExtras:
    """Demonstrations and oracle of one question."""

    demonstrations: tuple[Demonstration, ...] = ()  # as many as the pipeline asks for, most similar first
    grounded: tuple[GroundedDemonstration, ...] = ()  # the same with their schemas, for DAC's stages
    aligned: tuple[GroundedDemonstration, ...] = ()  # those for DAC's entity linking
    oracle: Oracle | None = None  # gold answers to DAC's sub-tasks, for analysis; None in ranked runs


@dataclass(frozen=True)
class QuestionInputs:
    """Databases and demonstrations of questions."""

    databases: Mapping[str, Database]  # opened databases by id, or only their schema
    extras: Mapping[str, QuestionExtras]  # demonstrations and the like, by question id


def check_demonstrations(settings: EvaluationSettings) -> None:
    """Check, before anything is opened, that the benchmark has training questions if the pipeline shows any."""
    if most_demonstrations(settings.pipeline) and settings.benchmark.train is None:
        folders = Folders.of(settings)
        check_files(settings.benchmark, data=folders.data, home=folders.home.path, conf=find_conf())
        raise _no_training_questions(settings)


def most_demonstrations(pipeline: PipelineSettings) -> int:
    """Return the number of demonstrations that a question needs."""
    dac = dac_of(pipeline)
    return max(pipeline.demonstrations.k, dac.most_shots if dac else 0)


def _no_training_questions(settings: EvaluationSettings) -> DataError:
    overrides = ["pipeline.demonstrations.k=0"]
    if dac_of(settings.pipeline):
        overrides += ["pipeline.dac.shots=0", "pipeline.dac.correction_shots=0"]
    return DataError(
        f"{settings.benchmark.name} has no training questions to demonstrate with. "
        f'Turn off: {" ".join(f"--set {setting}" for setting in overrides)}. Or write "demonstrations: false" in it.'
    )


@dataclass(frozen=True)
class _Pool:
    """Training questions of a benchmark, leaks removed."""

    benchmark: Benchmark
    guarded: tuple[Demonstration, ...]  # what may be shown
    note: str  # a sentence for the user


class DemonstrationSearch:
    """Search of demonstrations for the questions of one evaluated benchmark."""

    def __init__(self, evaluated: Benchmark, settings: EvaluationSettings, progress: Progress) -> None:
        """Read the training questions, if the pipeline shows any, and remove leaks."""
        self._evaluated = evaluated
        self._settings, retriever_note = with_retriever(settings)
        self._progress = progress
        self._retrieval = self._settings.pipeline.demonstrations
        self._dac = dac_of(settings.pipeline)
        self._shots = most_demonstrations(settings.pipeline)
        self._pools: list[_Pool] = []  # training questions of the benchmark, and of Spider for entity linking
        if self._shots:
            self._pools = [self._pool(evaluated)]
            if not self._pools[0].guarded:
                raise _no_training_questions(settings)
        if self._dac and self._dac.shots and self._dac.alignments == "spider" and (spider := self._spider()):
            self._pools.append(spider)
        # sentences on where demonstrations are from and what was removed
        self.note = " ".join(filter(None, (retriever_note, *(pool.note for pool in self._pools))))

    def choose(self, questions: Sequence[Question]) -> dict[str, QuestionExtras]:
        """Return each question's demonstrations, by its id; for DAC also with their schemas and for entity linking."""
        if not self._shots:
            return {question.id: QuestionExtras() for question in questions}
        nearest = self._nearest(self._pools[0], questions, self._shots)
        extras = [QuestionExtras(group[: self._retrieval.k]) for group in nearest]
        if self._dac:
            grounded = self._grounded(self._pools[0], nearest)
            aligned = self._aligned(self._pools[-1], questions, self._dac.shots)
            extras = [
                QuestionExtras(own.demonstrations, with_schemas, linked)
                for own, with_schemas, linked in zip(extras, grounded, aligned, strict=True)
            ]
        return dict(zip((question.id for question in questions), extras, strict=True))

    @property
    def chosen_from(self) -> Mapping[str, Any] | None:
        """All that decides `choose`, beside the questions and the settings, so that a digest needs no choice.

        None for DAC, whose choice has to be made: its demonstrations have schemas, read only for those that are chosen.
        """
        if self._dac:
            return None
        names = self._evaluated.schema_names if self._retrieval.mask and self._pools else {}
        return {"pools": [pool.guarded for pool in self._pools], "names": names}

    @property
    def source(self) -> str:
        """How many training questions may be shown, and a digest of them: "289 (1a2b3c4d)"; "" where none are shown."""
        if not self._pools:
            return ""
        pools = [pool.guarded for pool in self._pools]
        return f"{sum(map(len, pools)):,} ({hashlib.sha256(repr(pools).encode()).hexdigest()[:8]})"

    def _pool(self, benchmark: Benchmark) -> _Pool:
        """Return a benchmark's training questions without those of the evaluated split."""
        from tasks.retrieval.leaks import without_leaks

        guarded = without_leaks(
            benchmark.demonstrations, self._evaluated.questions, self._evaluated.gold_fingerprints
        )
        return _Pool(benchmark, guarded.pool, guarded.sentence)

    def _spider(self) -> _Pool | None:
        """Return Spider's training questions; None where its files are not in the data folder."""
        settings = load_benchmark_settings(find_conf(), SPIDER)
        if self._evaluated.settings.name == SPIDER:  # the first pool has them
            return None
        try:
            pool = self._pool(Folders.of(self._settings).benchmark(settings))
        except DataError:
            return None
        return replace(pool, note=f"Entity linking is shown training questions of Spider: {pool.note}")

    def _nearest(
        self, pool: _Pool, questions: Sequence[Question], count: int
    ) -> tuple[tuple[Demonstration, ...], ...]:
        """Return the most similar training questions for each question, compared without schema names if masked."""
        from tasks.retrieval.demonstrations import nearest_demonstrations

        chosen, available = min(count, len(pool.guarded)), len(pool.guarded)
        self._progress.step(f"Choosing {chosen} of {available:,} demonstrations for each question")
        names = pool.benchmark.schema_names if self._retrieval.mask else None
        if names is not None and pool.benchmark is not self._evaluated:
            names = {**names, **self._evaluated.schema_names}
        return nearest_demonstrations(
            pool.guarded,
            questions,
            self._retrieval.model_copy(update={"k": count}),
            cache=Folders.of(self._settings).home.embeddings,
            schema_names=names,
            progress=self._progress.step,
        )

    def _grounded(
        self, pool: _Pool, demonstrations: Sequence[Sequence[Demonstration]]
    ) -> list[tuple[GroundedDemonstration, ...]]:
        """Return the demonstrations of each question with the schemas of their databases."""
        schemas = pool.benchmark.training_schemas(
            demonstration.database_id for group in demonstrations for demonstration in group
        )
        # one object for each demonstration: its alignment is computed once
        grounded: dict[Demonstration, GroundedDemonstration] = {}
        for group in demonstrations:
            grounded |= zip(group, ground(group, schemas), strict=True)
        return [tuple(grounded[demonstration] for demonstration in group) for group in demonstrations]

    def _aligned(
        self, pool: _Pool, questions: Sequence[Question], shots: int
    ) -> list[tuple[GroundedDemonstration, ...]]:
        """Return, for each question, similar training questions whose alignment names most of their columns."""
        if not shots:
            return [()] * len(questions)
        nearest = self._grounded(pool, self._nearest(pool, questions, CANDIDATES_PER_SHOT * shots))
        return [best_covered(group, shots) for group in nearest]


def with_retriever(settings: EvaluationSettings) -> tuple[EvaluationSettings, str]:
    """Return the settings with a retriever in place of "auto", and a sentence on which it is; "" if they name one.

    An encoder that can be loaded without a network is taken: that of the settings, else one of an installed package.
    """
    retrieval = settings.pipeline.demonstrations
    if retrieval.retriever != "auto" or not most_demonstrations(settings.pipeline):
        return settings, ""
    from tasks.retrieval.encoder_files import INSTALL, available_encoder, is_installed

    encoder = available_encoder(retrieval.encoder)
    if encoder == retrieval.encoder:
        note = f"Demonstrations: by {encoder}."
    elif encoder:
        note = f"Demonstrations: {encoder} stands in for {retrieval.encoder}, which is not on this disk."
    elif is_installed():
        note = (
            f"Demonstrations: BM25 stands in for {retrieval.encoder}, which is not on this disk; "
            '"--set pipeline.demonstrations.retriever=embedding" fetches it.'
        )
    else:
        note = (
            f"Demonstrations: BM25 stands in for {retrieval.encoder}, because sentence-transformers is not installed. "
            f"{INSTALL}"
        )
    update = {"retriever": "embedding", "encoder": encoder} if encoder else {"retriever": "bm25"}
    demonstrations = {"demonstrations": retrieval.model_copy(update=update)}
    return settings.model_copy(update={"pipeline": settings.pipeline.model_copy(update=demonstrations)}), note
