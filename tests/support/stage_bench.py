"""Real dependencies of a stage: a SQLite file, worker processes, a backbone at the fake server."""

import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.metered import MeteredBackbone
from tasks.core.outcome import StageRecord
from tasks.core.records import (
    Correction,
    CorrectionCase,
    Demonstration,
    FewShotQuestion,
    Question,
    Selection,
    SqlPair,
)
from tasks.database.database import Database, open_database
from tasks.database.limits import Limits
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import ColumnDescription, Schema
from tasks.database.schema_text import PromptParts, SchemaView
from tasks.settings.backbone import BackboneSettings
from tasks.settings.pipeline import PromptSettings, SchemaFormat
from tasks.settings.stages import CorrectionTurns, SelectionSettings
from tasks.stages.question_run import QuestionRun, in_question_run
from tasks.stages.rsl_sql import binary_selection, self_correction
from tests.support.fake_openai import Body, FakeOpenAI, fake_openai, reply

__all__ = ["Bench", "bench", "fake_openai", "museum", "open_fake", "workers"]

T = TypeVar("T")

MUSEUM = """
CREATE TABLE museum (id INTEGER PRIMARY KEY, name TEXT, "opened in" INTEGER, city TEXT);
INSERT INTO museum VALUES (1, 'Glass House', 1901, 'Lyon'), (2, 'Toy Hall', 1950, NULL), (3, 'Old Mill', 1870, 'Ghent');
CREATE TABLE "order" (
    id INTEGER PRIMARY KEY, museum_id INTEGER REFERENCES museum (id), "total.eur" REAL, "no`te" TEXT
);
INSERT INTO "order" VALUES (1, 1, 20.5, 'by post'), (2, 1, 4.0, 'it''s late'), (3, 3, 7.0, NULL);
CREATE TABLE guide (id INTEGER PRIMARY KEY, museum_id INTEGER REFERENCES museum (id), language TEXT);
INSERT INTO guide VALUES (1, 2, 'fr');
"""
DESCRIPTIONS = {
    ("museum", "opened in"): ColumnDescription("The year in which it opened.", ""),
    ("order", "total.eur"): ColumnDescription("What was paid, in euros", "never negative"),
}
QUESTION = Question(
    id="7",
    text="Which museums of Lyon sold something?",
    database_id="museum",
    evidence="sold something refers to an order; Lyon is a city",
)
PLAIN = Question(id="8", text="How many museums are there?", database_id="museum")
DEMONSTRATIONS = (
    Demonstration(
        "How many zoos are in Ghent?", "SELECT COUNT(*) FROM zoo WHERE city = 'Ghent'", "zoo", "zoos"
    ),
    Demonstration("Name all animals.", "SELECT name\nFROM animal", "zoo"),
)
ASKED = FewShotQuestion(QUESTION, DEMONSTRATIONS)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def stages_run(question_run: QuestionRun) -> int:
    """Return how many stages of a question ran, restored ones apart."""
    return sum(not record.restored for record in question_run.records)


def render(schema: Schema, style: SchemaFormat, *, descriptions: bool, **prompt: Any) -> PromptParts:
    """Return a schema as text; `prompt` are settings of the prompt."""
    settings = PromptSettings(schema_format=style, **prompt)
    return SchemaView(schema, settings, descriptions=descriptions).render()


def sql_reply(sql: str | None) -> str:
    """Reply of a well-behaved model."""
    return json.dumps({"sql": sql})


@dataclass
class Bench:
    """One question's stages, run in place.

    Attributes:
        server: who answers.
        backbone: how it is asked.
        runner: the database, with a time limit of a fifth of a second.
        records: what the stages left behind.
    """

    server: FakeOpenAI
    backbone: MeteredBackbone
    runner: DatabaseRunner
    records: list[StageRecord] = field(default_factory=list)

    @property
    def schema(self) -> Schema:
        return self.runner.database.schema

    @property
    def conversations(self) -> list[list[Body]]:
        """The messages of every request."""
        return [received.body["messages"] for received in self.server.requests]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all stages, in order."""
        return tuple(note for record in self.records for note in record.notes)

    def says(self, *texts: str) -> None:
        """Let the next replies be these."""
        self.server.script(*(reply(text) for text in texts))

    async def select(self, sql1: str | None, sql2: str | None, **settings: Any) -> Selection:
        """Run binary selection."""
        return await self.run(
            binary_selection(
                ASKED,
                SchemaView(self.schema, descriptions=True),
                SqlPair(sql1, sql2),
                SelectionSettings(**settings),
                self.runner,
                self.backbone,
            )
        )

    async def correct(self, sql: str | None, **settings: Any) -> Correction:
        """Run self-correction."""
        return await self.run(
            self_correction(
                CorrectionCase(ASKED, sql),
                SchemaView(self.schema, descriptions=True),
                CorrectionTurns(**settings),
                self.runner,
                self.backbone,
            )
        )

    async def run(self, stage: Awaitable[T]) -> T:
        """Await a stage in a question run of its own."""
        with in_question_run(QuestionRun(QUESTION)) as question_run:
            try:
                return await stage
            finally:
                self.records.extend(question_run.records)


def fake_settings(server: FakeOpenAI, **changes: Any) -> BackboneSettings:
    """Settings of a backbone at the server."""
    plain: dict[str, Any] = {
        "name": "fake",
        "model": "fake-1",
        "base_url": server.base_url,
        "max_wait_s": 0.01,
    }
    return BackboneSettings(**(plain | {"retries": 0} | changes))


@pytest.fixture
def open_fake(fake_openai: FakeOpenAI) -> Callable[..., EndpointBackbone]:
    """Make a backbone at the fake server, its settings changed as asked."""
    return lambda **changes: EndpointBackbone(fake_settings(fake_openai, **changes))


def build(path: Path, script: str, descriptions: Mapping[tuple[str, str], ColumnDescription]) -> Database:
    """Make a SQLite file and open it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return open_database(path, path.stem, descriptions=descriptions)


@pytest.fixture(scope="session")
def museum(tmp_path_factory: pytest.TempPathFactory) -> Database:
    return build(tmp_path_factory.mktemp("museum") / "museum.sqlite", MUSEUM, DESCRIPTIONS)


@pytest_asyncio.fixture
async def workers() -> AsyncIterator[SqlWorkers]:
    async with SqlWorkers(1, limits=Limits(timeout_s=0.5, grace_s=10.0, memory_mb=512)) as pool:
        yield pool


@pytest_asyncio.fixture
async def bench(
    fake_openai: FakeOpenAI,
    open_fake: Callable[..., EndpointBackbone],
    museum: Database,
    workers: SqlWorkers,
) -> AsyncIterator[Bench]:
    async with open_fake() as client:
        yield Bench(fake_openai, MeteredBackbone(client), DatabaseRunner(museum, workers, 0.2))
