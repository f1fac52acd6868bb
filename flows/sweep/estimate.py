"""Estimate of the cost of a sweep, before it starts.

A sample of questions goes through each pipeline with the free offline backbone; all prompts and replies are measured,
four characters a token. A real model's replies change the length of later prompts and the number of corrections.
Cached replies are not subtracted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flows.questions.preparation import Preparation, prepare
from flows.questions.runner import QuestionRunner, Tools
from flows.runtime.budget import tokens
from flows.runtime.control import Progress
from flows.sweep.plan import Cell
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.pricing import cost, prices_for
from tasks.backbone.protocol import Reply, Request
from tasks.database.sandbox.workers import SqlWorkers
from tasks.records import Question, Usage
from tasks.trail import Trail

SAMPLE = 8
"""Number of questions measured per pipeline, evenly spaced."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated calls, tokens and cost of one cell.

    Attributes:
        questions: questions that are asked.
        calls: model calls.
        input_tokens, output_tokens: tokens of these calls.
        cost_usd: cost at the backbone's dated price; None: unknown.
    """

    questions: int
    calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


class _Measuring:
    """Offline backbone that counts calls and tokens."""

    def __init__(self) -> None:
        self._inner = OfflineBackbone()
        self.calls = self.input_tokens = self.output_tokens = 0

    @property
    def identity(self) -> Any:
        return self._inner.identity

    async def complete(self, request: Request) -> Reply:
        reply = await self._inner.complete(request)
        self.calls += 1
        self.input_tokens += sum(tokens(len(message.content)) for message in request.messages)
        self.output_tokens += tokens(len(reply.text))
        return reply


async def estimate(cells: Sequence[Cell], progress: Progress) -> tuple[Estimate, ...]:
    """Estimate every cell; cells that differ only in their backbone are measured once.

    Raises:
        CrosscheckError: a cell cannot start: files, questions, databases or keys are missing.
    """
    measured: dict[str, Estimate] = {}
    found = []
    async with SqlWorkers() as workers:
        for cell in cells:
            key = cell.settings.pipeline.model_dump_json()
            preparation = prepare(cell.settings, progress)
            if key not in measured:
                progress.step(f"Estimating {cell.settings.pipeline.name}")
                measured[key] = await _measure(preparation, workers)
            found.append(_priced(measured[key], cell))
    return tuple(found)


async def _measure(preparation: Preparation, workers: SqlWorkers) -> Estimate:
    asked = preparation.asked
    measuring = _Measuring()
    backbone = MeteredBackbone(measuring)
    tools = Tools(backbone, workers, eliminator=backbone)
    runner = QuestionRunner(preparation.settings, preparation.inputs, tools)
    sample = _spread(asked)
    outcomes = [await runner.run(Trail(question)) for question in sample]
    if not sample or any(outcome.failure for outcome in outcomes):
        return Estimate(len(asked), None, None, None, None)
    factor = len(asked) / len(sample)
    return Estimate(
        len(asked),
        round(measuring.calls * factor),
        round(measuring.input_tokens * factor),
        round(measuring.output_tokens * factor),
        None,
    )


def _spread(questions: Sequence[Question]) -> list[Question]:
    if len(questions) <= SAMPLE:
        return list(questions)
    return [questions[place * len(questions) // SAMPLE] for place in range(SAMPLE)]


def _priced(measured: Estimate, cell: Cell) -> Estimate:
    """Return the estimate with its cost at the backbone's price; unknown if there is an eliminator."""
    eliminator = getattr(cell.settings.pipeline, "eliminator", None)
    prices = None if eliminator else prices_for(cell.settings.backbone)
    usage = Usage(input=measured.input_tokens, output=measured.output_tokens)
    priced = 0.0 if cell.free else cost(usage, prices)
    return Estimate(
        measured.questions,
        measured.calls,
        measured.input_tokens,
        measured.output_tokens,
        priced,
    )
