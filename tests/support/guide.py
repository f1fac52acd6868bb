"""A pipeline on one real database, with a model that answers by the prompt it is shown."""

import json
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import pytest

from flows.pipelines.pipeline import Context, PipelineRecord, pipeline_of
from tasks.core.records import Demonstration, Question
from tasks.settings.home import find_conf
from tasks.settings.load import load_pipeline_settings
from tasks.stages.question_run import QuestionRun, in_question_run
from tests.support.fake_openai import Body
from tests.support.stage_bench import DEMONSTRATIONS, QUESTION, Bench

GOOD, OTHER = "SELECT name FROM museum WHERE city = 'Lyon'", "SELECT name FROM museum WHERE id = 1"
REPLIES = {
    "forward_link": {"tables": ["museum"], "columns": ["museum.name", "museum.city"]},
    "preliminary_sql": {"sql": GOOD},
    "augmentation_keywords": {"sql_keywords": ["DISTINCT"]},
    "augmentation_conditions": {"conditions": ["of Lyon"]},
    "augmented_sql": {"sql": OTHER},
    "binary_selection": {"sql": OTHER},
    "self_correction": {"sql": GOOD},
}


@pytest.fixture(scope="session")
def marked_conf(tmp_path_factory: pytest.TempPathFactory) -> File:
    """The shipped configuration, in which every prompt begins with the name of its template."""
    conf = tmp_path_factory.mktemp("marked") / "conf"
    shutil.copytree(find_conf(), conf, ignore=shutil.ignore_patterns("demo"))
    for path in (conf / "prompts").glob("[!_]*.jinja"):
        text = path.read_text(encoding="utf-8")
        block = "block system -%}" if "block system -%}" in text else "block user -%}"
        path.write_text(text.replace(block, f"{block}<{path.stem}> ", 1), encoding="utf-8")
    return conf


@dataclass
class Walk:
    """Result of one question, and the prompts that were sent.

    Attributes:
        sql: the final SQL.
        record: candidates, links and notes.
        question_run: the stages' records.
        asked: prompts by template, in order of arrival; whole conversations as one text.
    """

    sql: str | None
    record: PipelineRecord
    question_run: QuestionRun
    asked: dict[str, list[str]]

    @property
    def stages(self) -> list[str]:
        """Labels of the stages, those that ran together in alphabetical order."""
        labels = [record.label for record in self.question_run.records]
        together = [label for label in labels if label.startswith("augmentation")]
        first = labels.index(together[0]) if together else 0
        return [*labels[:first], *sorted(together), *labels[first + len(together) :]]

    @property
    def candidates(self) -> dict[str, str | None]:
        return {candidate.stage: candidate.sql for candidate in self.record.candidates}

    @property
    def calls(self) -> int:
        return sum(len(record.calls) for record in self.question_run.records)


@dataclass
class Guide:
    """Takes a question through a pipeline.

    Attributes:
        replies: what is answered to each template: one object for ever, or a list of them, the last for ever.
    """

    bench: Bench
    replies: dict[str, Any] = field(default_factory=lambda: dict(REPLIES))

    async def __call__(
        self,
        pipeline: str = "rsl-sql",
        *overrides: str,
        question: Question = QUESTION,
        demonstrations: tuple[Demonstration, ...] = DEMONSTRATIONS,
        **further: Any,
    ) -> Walk:
        settings = load_pipeline_settings(find_conf(), pipeline, [f"pipeline.{text}" for text in overrides])
        asked: dict[str, list[str]] = defaultdict(list)
        self.bench.server.answer = lambda body: self._answer(body, asked)
        record = PipelineRecord()
        context = Context(settings, self.bench.runner, demonstrations, self.bench.backbone, record, **further)
        with in_question_run(QuestionRun(question)) as question_run:
            sql = await pipeline_of(settings).answer(question, context)
        return Walk(sql, record, question_run, asked)

    def _answer(self, body: Body, asked: dict[str, list[str]]) -> str:
        found = re.match(r"<(\w+)> ", body["messages"][0]["content"])
        assert found is not None
        template = found[1]
        asked[template].append("\n".join(message["content"] for message in body["messages"]))
        replies = self.replies[template]
        if isinstance(replies, list):
            replies = replies[min(len(asked[template]), len(replies)) - 1]
        return replies if isinstance(replies, str) else json.dumps(replies)


@pytest.fixture
def walk(bench: Bench, marked_conf: File, monkeypatch: pytest.MonkeyPatch) -> Guide:
    """Take a question through a pipeline: `await walk("rsl-sql", "selection.counts=true")`."""
    monkeypatch.setenv("CROSSCHECK_CONF", str(marked_conf))
    return Guide(bench)
