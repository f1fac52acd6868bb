"""Estimate of the cost of a sweep, before it starts.

A sample of questions goes through each pipeline with the free offline backbone; all prompts and replies are measured,
four characters a token. Prompts ask for the cell's reply formats; a format that reasons adds `ASSUMED_REASONING` tokens
to each reply, since the offline backbone reasons in none. A real model's replies change the length of later prompts and
the number of corrections. Cached replies are not subtracted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from flows.questions.preparation import Preparation, prepare
from flows.questions.runner import QuestionRunner, Tools
from flows.runtime.budget import tokens
from flows.runtime.control import Progress
from flows.sweep.plan import Cell
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.pricing import cost, prices_for
from tasks.backbone.protocol import Reply, Request
from tasks.backbone.replies.format import ReplyFormat
from tasks.backbone.reply_formats import ReplyFormats
from tasks.database.sandbox.workers import SqlWorkers
from tasks.records import Question, Usage
from tasks.trail import Trail

SAMPLE = 8
"""Number of questions measured per pipeline, evenly spaced."""
ASSUMED_REASONING = 250
"""Output tokens of the reasoning in a reply whose format has one: an assumption, models write from 50 to 2,000."""


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


class _Asked(ReplyFormat):
    """Another format's instructions, answered in JSON: the offline backbone writes nothing else."""

    def __init__(self, asked: ReplyFormat) -> None:
        self._asked = asked
        self.reasons = asked.reasons

    def instruction(self, written: str, reply_type: type[BaseModel]) -> str:
        return self._asked.instruction(written, reply_type)

    def earlier_reply(self, content: str, reply_type: type[BaseModel]) -> str:
        return self._asked.earlier_reply(content, reply_type)


class _AskedFormats(ReplyFormats):
    """A backbone's reply formats, answered in JSON."""

    def format(self, label: str | None) -> _Asked:
        return _Asked(super().format(label))


class _Measuring:
    """Offline backbone that counts calls and tokens."""

    def __init__(self, formats: ReplyFormats) -> None:
        self._inner = OfflineBackbone()
        self._formats = formats
        self.calls = self.input_tokens = self.output_tokens = 0

    @property
    def identity(self) -> Any:
        return self._inner.identity

    async def complete(self, request: Request) -> Reply:
        reply = await self._inner.complete(request)
        self.calls += 1
        self.input_tokens += sum(tokens(len(message.content)) for message in request.messages)
        self.output_tokens += tokens(len(reply.text))
        stage = request.origin.stage if request.origin else None
        if request.schema is not None and self._formats.format(stage).reasons:
            self.output_tokens += ASSUMED_REASONING
        return reply


async def estimate(cells: Sequence[Cell], progress: Progress) -> tuple[Estimate, ...]:
    """Estimate every cell; cells that differ only in their backbone, but not in its reply formats, are measured once.

    Raises:
        CrosscheckError: a cell cannot start: files, questions, databases or keys are missing.
    """
    measured: dict[str, Estimate] = {}
    found = []
    async with SqlWorkers() as workers:
        for cell in cells:
            formats = _AskedFormats.of(cell.settings.backbone)
            key = f"{cell.settings.pipeline.model_dump_json()} {formats}"
            preparation = prepare(cell.settings, progress)
            if key not in measured:
                progress.step(f"Estimating {cell.settings.pipeline.name}")
                measured[key] = await _measure(preparation, formats, workers)
            found.append(_priced(measured[key], cell))
    return tuple(found)


async def _measure(preparation: Preparation, formats: ReplyFormats, workers: SqlWorkers) -> Estimate:
    asked = preparation.asked
    measuring = _Measuring(formats)
    backbone = MeteredBackbone(measuring, formats)
    tools = Tools(backbone, workers, eliminator=MeteredBackbone(measuring))
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
    return replace(measured, cost_usd=0.0 if cell.free else cost(usage, prices))
