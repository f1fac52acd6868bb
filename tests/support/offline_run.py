"""Questions of a benchmark taken through a pipeline by the offline backbone, in this process and without Prefect."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.evaluate.preparation import Preparation, prepare
from flows.evaluate.runner import QuestionRunner, Tools
from flows.runtime.control import Progress
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.protocol import Reply, Request
from tasks.core.outcome import Outcome
from tasks.database.sandbox.workers import SqlWorkers
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.stages.question_run import QuestionRun


@dataclass(frozen=True)
class Exchange:
    """A request of a stage and its reply, as text."""

    stage: str
    prompt: str
    reply: str


@dataclass
class Listener:
    """The offline backbone; keeps every exchange by question id."""

    heard: dict[str, list[Exchange]] = field(default_factory=dict)

    @property
    def identity(self) -> Mapping[str, Any]:
        return OfflineBackbone().identity

    async def complete(self, request: Request) -> Reply:
        """Answer one request."""
        reply = await OfflineBackbone().complete(request)
        assert request.origin is not None
        stage = request.origin.stage.partition(" ")[0]
        text = "\n\n".join(message.content for message in request.messages)
        self.heard.setdefault(request.origin.question, []).append(Exchange(stage, text, reply.text))
        return reply


@dataclass(frozen=True)
class OfflineRun:
    """Outcomes and exchanges by question id."""

    preparation: Preparation
    outcomes: Mapping[str, Outcome]
    heard: Mapping[str, Sequence[Exchange]]


async def offline_run(
    pipeline: str,
    *overrides: str,
    home: Path,
    benchmark: str = "demo",
    data: str | None = None,
    limit: int | None = None,
    questions: str | None = None,
    eliminator: bool = False,
    workers: SqlWorkers | None = None,
) -> OfflineRun:
    """Take questions through a pipeline; with `eliminator` the offline backbone is SEA-SQL's eliminator too."""
    settings = evaluation_settings(
        EvaluationChoice(
            benchmark=benchmark,
            backbone="offline",
            pipeline=pipeline,
            overrides=overrides,
            home=str(home),
            data=data,
            limit=limit,
            questions=questions,
        )
    )
    preparation = prepare(settings, Progress())
    listener = Listener()
    outcomes = {}
    async with nullcontext(workers) if workers else SqlWorkers(2) as pool:
        metered = MeteredBackbone(listener)
        runner = QuestionRunner(
            settings, preparation.inputs, Tools(metered, pool, metered if eliminator else None)
        )
        for question in preparation.answerable:
            outcomes[question.id] = await runner.run(QuestionRun(question))
    return OfflineRun(preparation, outcomes, listener.heard)
