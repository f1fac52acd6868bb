"""A pipeline: a function that takes a question through stages, and the model of its settings.

    class VoteSettings(PipelineSettings):
        votes: int = 3

    @pipeline(VoteSettings)
    async def vote(question: Question, context: Context[VoteSettings]) -> str | None: ...

Pipelines of this package have a name. One in a file of a user's own is named `path/to/file.py:vote`, one of an
installed package as its entry point in the group `crosscheck.pipelines`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, overload

from tasks.backbone.metered import MeteredBackbone
from tasks.core.outcome import Candidate
from tasks.core.records import Demonstration, FewShotQuestion, Link, Oracle, Question
from tasks.core.registry import of_type
from tasks.core.wording import counted
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_text import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.retrieval.value_index import DatabaseValues
from tasks.settings.kinds import PIPELINES
from tasks.settings.pipeline import PipelineSettings
from tasks.stages.columns import column_profile, with_profile
from tasks.stages.schema_prompt import schema_pruning, text_size
from tasks.stages.sea_sql import value_retrieval

S = TypeVar("S", bound=PipelineSettings)
S_co = TypeVar("S_co", bound=PipelineSettings, covariant=True)


@dataclass
class PipelineRecord:
    """The SQL after each step, the schema links and the notes of one question; kept when a later step fails."""

    candidates: list[Candidate] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def sql(self, stage: str, sql: str | None) -> str | None:
        """Record the SQL after a stage, under the name of its metric, and return it."""
        text = of_type(str | None, sql, "record.sql was given")
        self.candidates.append(Candidate(f"{len(self.candidates) + 1}_{stage}", text))
        return sql

    def link(self, name: str, link: Link) -> Link:
        """Record a schema link for the linking metrics, and return it."""
        self.links[name] = of_type(Link, link, "record.link was given")
        return link

    def note(self, text: str) -> None:
        """Record a remark for the question's notes."""
        self.notes.append(of_type(str, text, "record.note was given"))


@dataclass(frozen=True)
class Context(Generic[S_co]):
    """Input of a pipeline besides the question.

    Attributes:
        settings: the pipeline's own settings.
        runner: executes SQL on the question's database.
        demonstrations: training questions most similar to the question, as many as the settings ask for.
        backbone: the model.
        record: where the pipeline records its steps.
        grounded: the demonstrations with their schemas, as many as DAC's stages and the pipeline ask for.
        aligned: demonstrations for DAC's entity linking, chosen for their alignments; None: those in `grounded`.
        oracle: gold answers to DAC's sub-tasks, for analysis; None in scored runs.
        values: the values of the question's database; needed where the prompt shows retrieved ones.
        eliminator: the model that eliminates bias (SEA-SQL); None where none is configured.
        schema_room: bytes of text that a schema may have in a prompt; None: any number.
    """

    settings: S_co
    runner: DatabaseRunner
    demonstrations: tuple[Demonstration, ...]
    backbone: MeteredBackbone
    record: PipelineRecord = field(default_factory=PipelineRecord)
    grounded: tuple[GroundedDemonstration, ...] = ()
    aligned: tuple[GroundedDemonstration, ...] | None = None
    oracle: Oracle | None = None
    values: DatabaseValues | None = None
    eliminator: MeteredBackbone | None = None
    schema_room: int | None = None

    def with_demonstrations(self, question: Question) -> FewShotQuestion:
        """Return the question with its demonstrations; the settings decide whether they show evidence."""
        examples = self.demonstrations[: self.settings.demonstrations.k]
        if not self.settings.demonstrations.evidence:
            examples = tuple(replace(example, evidence="") for example in examples)
        return FewShotQuestion(question, examples)

    def grounded_demonstrations(
        self, count: int, *, aligned: bool = False, evidence: bool = False
    ) -> tuple[GroundedDemonstration, ...]:
        """Return the first demonstrations with their schemas: those for entity linking, or the others."""
        examples = (self.grounded if self.aligned is None or not aligned else self.aligned)[:count]
        if evidence or self.settings.demonstrations.evidence:
            return examples
        return tuple(replace(example, evidence="") for example in examples)

    async def view_for(self, question: Question, *, descriptions: bool) -> SchemaView:
        """Return the full schema as the prompts show it, with retrieved values where the settings ask for them.

        A schema with too much text for the context is pruned (`tasks.stages.schema_prompt`), which is noted.
        """
        view = await self.full_view(question, descriptions=descriptions)
        if self.schema_room is None or text_size(view) <= self.schema_room:
            return view
        link = await schema_pruning(question, view, self.schema_room)
        pruned = view.reduced_to(link)
        full = view.schema
        self.record.note(
            f"the schema has more than {self.schema_room:,} bytes of text: {len(pruned.schema.column_names):,} of "
            f"{len(full.column_names):,} columns are shown, of {len(pruned.schema.tables):,} of "
            f"{counted(len(full.tables), 'table')}"
        )
        return pruned

    async def full_view(self, question: Question, *, descriptions: bool) -> SchemaView:
        """Return the whole schema as the prompts show it: with sample rows, retrieved values or neither."""
        prompt = self.settings.prompt
        schema = self.runner.database.schema
        random_rows = prompt.values == "rows" and prompt.rows == "random"
        if random_rows or prompt.missing:
            profile = await column_profile(schema, prompt.sample_rows, prompt.row_seed, self.runner)
            schema = with_profile(schema, profile, samples=random_rows, missing=prompt.missing)
        view = SchemaView(schema, prompt, descriptions=descriptions)
        if prompt.values == "rows":
            return view
        if not prompt.values_per_column:
            return view.with_values(())
        if self.values is None:
            raise RuntimeError(
                "the flow has to give a context `values` where the prompt's values are retrieved"
            )
        return view.with_values(
            await value_retrieval(question, self.values, prompt.values_per_column, prompt.bm25_top_k)
        )


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@overload
def results_or_raise(gathered: tuple[A | BaseException, B | BaseException], /) -> tuple[A, B]: ...
@overload
def results_or_raise(
    gathered: tuple[A | BaseException, B | BaseException, C | BaseException], /
) -> tuple[A, B, C]: ...
@overload
def results_or_raise(gathered: Sequence[A | BaseException], /) -> tuple[A, ...]: ...
def results_or_raise(gathered: Sequence[object], /) -> tuple[object, ...]:
    """Return what `asyncio.gather(..., return_exceptions=True)` has found, or raise the error of the first that failed.

    With it, `gather` awaits all stages, also when one fails: the others' calls are paid for and have to be recorded.
    """
    for result in gathered:
        if isinstance(result, BaseException):
            raise result
    return tuple(gathered)


Function = Callable[[Question, Context[S]], Awaitable[str | None]]
"""Takes a question and its context and returns the final SQL; None when there is none."""


@dataclass(frozen=True)
class Pipeline(Generic[S]):
    """A pipeline."""

    answer: Function[S]  # takes a question through the stages
    settings: type[S]  # the model of its settings

    def __call__(self, question: Question, context: Context[S]) -> Awaitable[str | None]:
        """Answer a question, for pipelines that are made of others."""
        return self.answer(question, context)


def demand_sql(answer: object) -> str | None:
    """Return what a pipeline returned; raise an error if a user's own has returned neither SQL nor None."""
    sql: str | None = of_type(str | None, answer, "the pipeline returned")
    return sql


def pipeline(settings: type[S], *, name: str | None = None) -> Callable[[Function[S]], Pipeline[S]]:
    """Return a decorator that makes a pipeline of a function.

    Args:
        settings: the model of its settings.
        name: what `kind:` in a file of settings calls it; None for one in a user's file or package.
    """

    def decorate(function: Function[S]) -> Pipeline[S]:
        pipeline = Pipeline(function, settings)
        return PIPELINES.register(name)(pipeline) if name else pipeline

    return decorate


def pipeline_of(settings: PipelineSettings) -> Pipeline[Any]:
    """Return the pipeline that is configured by these settings."""
    pipeline: Pipeline[Any] = PIPELINES.get(settings.kind)
    return pipeline
