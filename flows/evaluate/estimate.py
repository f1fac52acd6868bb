"""Estimate of the cost of an evaluation, before its first question.

A sample of questions goes through each pipeline with the free offline backbone; all prompts and replies are measured,
four characters a token. A reply format that reasons adds `ASSUMED_REASONING` tokens to each reply, since the offline
backbone reasons in none. Not in the estimate are cached replies, which a run does not pay, and calls that select among
candidates, since those of the offline backbone are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from flows.evaluate.preparation import Preparation, asks_eliminator, backbones_of, is_free, writer_settings
from flows.evaluate.runner import QuestionRunner, Tools
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.pricing import cost, prices_for, tokens
from tasks.backbone.protocol import Reply, Request, sent_texts, stored_text
from tasks.backbone.replies.format import ReplyFormat, ReplyFormats
from tasks.core.outcome import Usage
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.cost import Estimate, total
from tasks.stages.question_run import QuestionRun

SAMPLE = 8
"""Number of questions measured per pipeline, evenly spaced."""
ASSUMED_REASONING = 250
"""Output tokens of the reasoning in a reply whose format has one: an assumption, models write from 50 to 2,000."""


@dataclass(frozen=True, slots=True)
class Part:
    """Calls of one backbone of an evaluation, for all questions."""

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


class JsonFormats(ReplyFormats):
    """A backbone's reply formats, answered in JSON."""

    def format(self, label: str | None) -> _JsonFormat:
        """Return the format of a stage."""
        return _JsonFormat(super().format(label))


class _Measuring(OfflineBackbone):
    """Offline backbone that counts calls and tokens."""

    def __init__(self, formats: ReplyFormats) -> None:
        super().__init__()
        self.formats = formats
        self.calls = 0
        self.input_tokens = 0
        self.output_tokens = 0

    async def complete(self, request: Request) -> Reply:
        reply = await super().complete(request)
        self.calls += 1
        self.input_tokens += sum(tokens(len(text)) for text in sent_texts(request))
        self.output_tokens += tokens(len(stored_text(reply)))
        stage = request.origin.stage if request.origin else None
        # the offline backbone leaves out the reasoning that the format of a structured reply begins with
        if request.schema is not None and self.formats.format(stage).reasons:
            self.output_tokens += ASSUMED_REASONING
        return reply


async def measure(preparation: Preparation, workers: SqlWorkers) -> tuple[Part, ...]:
    """Measure the calls of each of an evaluation's backbones; () where a question of the sample has no answer."""
    settings = preparation.settings
    measuring = {backbone.name: _Measuring(JsonFormats.of(backbone)) for backbone in backbones_of(settings)}
    backbones = {name: MeteredBackbone(backbone, backbone.formats) for name, backbone in measuring.items()}
    own = next(iter(backbones))  # the name of the evaluation's backbone; others only write candidates
    writers = tuple(backbones[writer.name] for writer in writer_settings(settings).writers)
    eliminator = MeteredBackbone(measuring[own])  # its calls count as those of the evaluation's backbone
    tools = Tools(backbones[own], workers, eliminator=eliminator, writers=writers)
    runner = QuestionRunner(settings, preparation.inputs, tools)
    questions = preparation.answerable
    span = max(len(questions), SAMPLE)  # of fewer questions than SAMPLE, each is measured
    sample = [questions[index * span // SAMPLE] for index in range(min(SAMPLE, len(questions)))]
    if not sample:
        return ()
    for question in sample:
        if (await runner.run(QuestionRun(question))).failure:
            return ()
    factor = len(questions) / len(sample)
    return tuple(
        Part(
            calls=round(backbone.calls * factor),
            usage=Usage(
                input=round(backbone.input_tokens * factor), output=round(backbone.output_tokens * factor)
            ),
        )
        for backbone in measuring.values()
    )


def priced(preparation: Preparation, parts: Sequence[Part]) -> Estimate:
    """Return measured calls with their cost at the backbones' prices; unknown if there is an eliminator."""
    settings = preparation.settings
    questions = len(preparation.answerable)
    if not parts:
        return Estimate(questions)
    used = [
        (part, backbone) for part, backbone in zip(parts, backbones_of(settings), strict=True) if part.calls
    ]
    usd = total([cost(part.usage, prices_for(backbone), backbone.tier) for part, backbone in used])
    if asks_eliminator(settings):
        usd = None
    return Estimate(
        questions,
        sum(part.calls for part in parts),
        sum(part.usage.input or 0 for part in parts),
        sum(part.usage.output or 0 for part in parts),
        0.0 if is_free(settings) else usd,
    )
