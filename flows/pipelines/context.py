"""What a pipeline is given for one question, and what it reports on the way."""

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from tasks.backbone.metered import MeteredBackbone
from tasks.dac_records import Oracle
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema
from tasks.records import Candidate, Demonstration, Link
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.retrieval.values.index import DatabaseValues
from tasks.settings.pipeline import PipelineSettings

S = TypeVar("S", bound=PipelineSettings)


@dataclass
class Path:
    """What stands after each step; kept when a later step fails."""

    candidates: list[Candidate] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def sql(self, stage: str, sql: str | None) -> str | None:
        """Note the SQL that stands after a stage, under the name of its metric, and return it."""
        self.candidates.append(Candidate(f"{len(self.candidates) + 1}_{stage}", sql))
        return sql

    def link(self, name: str, link: Link) -> Link:
        """Note a schema link for the linking metrics, and return it."""
        self.links[name] = link
        return link


@dataclass(frozen=True)
class Context(Generic[S]):
    """Everything a pipeline needs beside the question.

    Attributes:
        settings: the pipeline's own settings.
        runner: the question's database, ready to run SQL.
        demonstrations: training questions most similar to the question, as many as the settings ask for.
        backbone: who is asked.
        path: where the pipeline reports.
        grounded: the demonstrations with schema and alignment, as many as DAC's sub-tasks and the pipeline ask for.
        oracle: right answers to DAC's sub-tasks, in an analysis; None in every run that is scored.
        values: the values of the question's database; needed where the prompt shows retrieved ones.
        eliminator: who eliminates bias (SEA-SQL); None where no eliminator is configured.
    """

    settings: S
    runner: DatabaseRunner
    demonstrations: tuple[Demonstration, ...]
    backbone: MeteredBackbone
    path: Path = field(default_factory=Path)
    grounded: tuple[GroundedDemonstration, ...] = ()
    oracle: Oracle | None = None
    values: DatabaseValues | None = None
    eliminator: MeteredBackbone | None = None

    @property
    def schema(self) -> Schema:
        """The full schema of the question's database."""
        return self.runner.database.schema

    @property
    def examples(self) -> tuple[Demonstration, ...]:
        """The demonstrations as prompts show them: with or without their evidence."""
        if self.settings.demonstrations.evidence:
            return self.demonstrations
        return tuple(replace(demonstration, evidence="") for demonstration in self.demonstrations)
