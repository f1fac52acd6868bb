"""Estimate of the cost of a sweep, before it starts.

A sample of questions goes through each pipeline with the free offline backbone; all prompts and replies are measured,
four characters a token. Prompts ask for the cell's reply formats; a format that reasons adds `ASSUMED_REASONING` tokens
to each reply, since the offline backbone reasons in none. A real model's replies change the length of later prompts and
the number of corrections. Cached replies are not subtracted. Every candidate is written, by its own backbone; calls
that select among them are not in the estimate, since those of the offline backbone are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from flows.questions.candidate_backbones import writer_settings
from flows.questions.eliminator import asks_eliminator
from flows.questions.preparation import Preparation, prepare
from flows.questions.runner import QuestionRunner, Tools
from flows.runtime.control import Progress
from flows.sweep.plan import Cell
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.pricing import cost, prices_for, tokens
from tasks.backbone.protocol import Reply, Request
from tasks.backbone.replies.format import ReplyFormat
from tasks.backbone.reply_formats import ReplyFormats
from tasks.core.outcome import Usage
from tasks.core.records import Question
from tasks.database.sandbox.workers import SqlWorkers
from tasks.stage_runs.question_run import QuestionRun

SAMPLE = 8
"""Number of questions measured per pipeline, evenly spaced."""
ASSUMED_REASONING = 250
"""Output tokens of the reasoning in a reply whose format has one: an assumption, models write from 50 to 2,000."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated calls, tokens and cost of one cell."""

    questions: int  # questions of the cell
    calls: int | None  # model calls
    # input_tokens, output_tokens: tokens of these calls
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None  # cost at the backbone's dated price; None: unknown


@dataclass(frozen=True, slots=True)
class _Part:
    """Calls of one backbone of a cell, for all questions."""

    calls: int
    usage: Usage


class _JsonFormat(ReplyFormat):
    """Another format's instructions, answered in JSON: the offline backbone writes nothing else."""

    def __init__(self, inner: ReplyFormat) -> None:
        self._inner = inner
        self.reasons = inner.reasons

    def instruction(self, written: str, reply_type: type[BaseModel]) -> str:
        return self._inner.instruction(written, reply_type)

    def earlier_reply(self, content: str, reply_type: type[BaseModel]) -> str:
        return self._inner.earlier_reply(content, reply_type)


class _JsonFormats(ReplyFormats):
    """A backbone's reply formats, answered in JSON."""

    def format(self, label: str | None) -> _JsonFormat:
        return _JsonFormat(super().format(label))


class _Measuring:
    """Offline backbone that counts calls and tokens."""

    def __init__(self, formats: ReplyFormats) -> None:
        self._inner = OfflineBackbone()
        self.formats = formats
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
        if request.schema is not None and self.formats.format(stage).reasons:
            self.output_tokens += ASSUMED_REASONING
        return reply


async def estimate(cells: Sequence[Cell], progress: Progress) -> tuple[Estimate, ...]:
    """Estimate every cell; cells that differ only in their backbone, but not in its reply formats, are measured once.

    Raises:
        CrosscheckError: a cell cannot start: files, questions or databases are missing.
    """
    measured: dict[str, tuple[_Part, ...]] = {}
    found = []
    async with SqlWorkers() as workers:
        for cell in cells:
            formats = [_JsonFormats.of(backbone) for backbone in cell.backbones]
            key = f"{cell.settings.pipeline.model_dump_json()} {formats}"
            preparation = prepare(cell.settings, progress, sends_requests=False)
            if key not in measured:
                progress.step(f"Estimating {cell.settings.pipeline.name}")
                measured[key] = await _measure(preparation, cell, workers)
            found.append(_priced(len(preparation.answerable), measured[key], cell))
    return tuple(found)


async def _measure(preparation: Preparation, cell: Cell, workers: SqlWorkers) -> tuple[_Part, ...]:
    """Measure the calls of each of a cell's backbones; () where a question of the sample has no answer."""
    measuring = {one.name: _Measuring(_JsonFormats.of(one)) for one in cell.backbones}
    own, *_ = backbones = {name: MeteredBackbone(one, one.formats) for name, one in measuring.items()}
    writers = tuple(backbones[one.name] for one in writer_settings(cell.settings).writers)
    eliminator = MeteredBackbone(measuring[own])
    tools = Tools(backbones[own], workers, eliminator=eliminator, writers=writers)
    runner = QuestionRunner(preparation.settings, preparation.inputs, tools)
    sample = _spread(preparation.answerable)
    outcomes = [await runner.run(QuestionRun(question)) for question in sample]
    if not sample or any(outcome.failure for outcome in outcomes):
        return ()
    factor = len(preparation.answerable) / len(sample)
    return tuple(
        _Part(
            round(one.calls * factor),
            Usage(input=round(one.input_tokens * factor), output=round(one.output_tokens * factor)),
        )
        for one in measuring.values()
    )


def _spread(questions: Sequence[Question]) -> list[Question]:
    if len(questions) <= SAMPLE:
        return list(questions)
    return [questions[place * len(questions) // SAMPLE] for place in range(SAMPLE)]


def _priced(questions: int, parts: Sequence[_Part], cell: Cell) -> Estimate:
    """Return the estimate with its cost at the backbones' prices; unknown if there is an eliminator."""
    if not parts:
        return Estimate(questions, None, None, None, None)
    used = [(part, one) for part, one in zip(parts, cell.backbones, strict=True) if part.calls]
    costs = [cost(part.usage, prices_for(one), one.tier) for part, one in used]
    known = [usd for usd in costs if usd is not None]
    unknown = len(known) < len(costs) or asks_eliminator(cell.settings)
    return Estimate(
        questions,
        sum(part.calls for part in parts),
        sum(part.usage.input or 0 for part in parts),
        sum(part.usage.output or 0 for part in parts),
        0.0 if cell.free else None if unknown else sum(known),
    )
