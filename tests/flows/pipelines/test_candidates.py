"""Several candidates per question: what is asked, what is paid, and which one is selected."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flows.questions.demonstrations import QuestionExtras
from flows.questions.runner import QuestionInputs, RerunSpec
from flows.questions.session import Session
from flows.runtime.control import Control, NullProgress
from tasks.backbone.metered import SAMPLES_PER_CANDIDATE
from tasks.database.database import Database
from tasks.records import Outcome, Question
from tasks.settings.assemble import EvaluationChoice, evaluation_settings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.prefect_home import in_flow, prefect_api, prefect_home

__all__ = ["prefect_api", "prefect_home"]

THREE, TWO, NONE, BROKEN = (
    "SELECT name FROM museum",
    "SELECT name FROM museum WHERE city IS NOT NULL",
    "SELECT name FROM museum WHERE id = 9",
    "SELECT nam FROM museum",
)
ALSO_THREE = "SELECT name FROM museum ORDER BY name"
QUESTIONS = (
    Question("1", "Which museums are there?", "museum"),
    Question("2", "Name all museums.", "museum"),
)


def candidate_of(body: Body) -> int:
    """Which candidate a request writes, from 0: its seed moves on with the sample index."""
    return int(body["seed"]) // SAMPLES_PER_CANDIDATE


@dataclass
class Model:
    """A scripted model at a local server.

    Attributes:
        server: the server.
        sqls: what the candidates are, by place.
        better: which of two shown queries is better.
        merged: what is written from several.
    """

    server: FakeOpenAI
    sqls: Sequence[str] = (THREE, TWO, THREE, NONE, BROKEN, ALSO_THREE, TWO, THREE)
    better: Callable[[str], int] = lambda prompt: 1
    merged: str = THREE
    comparisons: list[str] = field(default_factory=list)

    def answer(self, body: Body) -> str:
        prompt = str(body["messages"][-1]["content"])
        if '"better"' in prompt:
            self.comparisons.append(prompt)
            return json.dumps({"better": self.better(prompt)})
        if "Several queries were written" in prompt:
            self.comparisons.append(prompt)
            return json.dumps({"sql": self.merged})
        return json.dumps({"sql": self.sqls[candidate_of(body) % len(self.sqls)]})

    @property
    def asked(self) -> list[tuple[int, float]]:
        """Candidate and temperature of every request, in order."""
        return [(candidate_of(each.body), each.body["temperature"]) for each in self.server.requests]


@pytest.fixture
def model(fake_openai: FakeOpenAI) -> Model:
    scripted = Model(fake_openai)
    fake_openai.answer = scripted.answer
    return scripted


@pytest.fixture
def settings_of(fake_openai: FakeOpenAI, tmp_path: Path) -> Callable[..., EvaluationSettings]:
    """Settings of a zero-shot run at the scripted server, changed as `--set` would."""

    def of(*overrides: str, **choice: Any) -> EvaluationSettings:
        for name in ("a", "b"):
            (tmp_path / f"{name}.yaml").write_text(
                f"model: model-{name}\nbase_url: {fake_openai.base_url}\nseed: 0\nretries: 0\n"
                "prices: {input: 1.0, output: 2.0, as_of: 2026-11-01}\n"
            )
        chosen = {
            "benchmark": "demo",
            "backbone": str(tmp_path / "a.yaml"),
            "pipeline": "zero-shot",
            **choice,
        }
        home = str(tmp_path / "home")
        return evaluation_settings(EvaluationChoice(**chosen, overrides=overrides, home=home))

    return of


async def answered(
    settings: EvaluationSettings, museum: Database, *, reruns: Mapping[str, RerunSpec] | None = None
) -> list[Outcome]:
    """Take both questions through the pipeline, as an evaluation does, inside of a Prefect flow."""

    async def work() -> list[Outcome]:
        async with Session.open(settings, Control(NullProgress())) as session:
            extras = {question.id: QuestionExtras() for question in QUESTIONS}
            runner = session.runner(QuestionInputs({"museum": museum}, extras), reruns=reruns)
            outcomes = [await runner.run(runner.trail(question)) for question in QUESTIONS]
            assert session.task_runs is not None
            await session.task_runs.finish()
            return outcomes

    return await in_flow(work)


WARM = "pipeline.candidates.temperature=0.8"


def n(count: int) -> str:
    return f"pipeline.candidates.n={count}"


async def test_eight_after_four_asks_for_four_and_the_first_is_what_one_run_gave(
    settings_of: Callable[..., EvaluationSettings], model: Model, museum: Database, prefect_home: Home
) -> None:
    alone = await answered(settings_of("backbone.temperature=0.8"), museum)
    assert model.asked == [(0, 0.8)] * 2
    four = await answered(settings_of(n(4), WARM), museum)
    assert sorted(model.asked[2:]) == [(one, 0.8) for one in (1, 2, 3) for _ in QUESTIONS]
    eight = await answered(settings_of(n(8), WARM), museum)
    assert sorted(model.asked[8:]) == [(one, 0.8) for one in (4, 5, 6, 7) for _ in QUESTIONS]
    again = await answered(settings_of(n(8), WARM), museum)
    assert len(model.asked) == 16
    assert [outcome.sql for outcome in (*alone, *four, *eight)] == [THREE] * 6
    assert [outcome.candidates for outcome in again] == [outcome.candidates for outcome in eight]
    assert all(record.restored for outcome in again for record in outcome.stages)
    steps = [candidate.stage for candidate in eight[0].candidates]
    assert steps == ["1_preliminary_sql", *(f"candidate_{place}" for place in range(1, 9)), "vote"]
    labels = [record.label for record in four[0].stages]
    assert labels == [*(f"preliminary_sql (candidate {place})" for place in range(1, 5)), "vote"]
