"""One question's way as a tree of spans: what each stage and each model call got, gave and cost."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.backbone.recordings.observed import Exchange
from tasks.backbone.replies.json_text import thoughts_of, without_thoughts
from tasks.core.outcome import StageRecord
from tasks.scoring.report import QuestionScore
from tasks.tracking.predictions import status

MOST_CHARACTERS = 50_000
"""Length at which a text is cut: a trace is for reading."""

NOT_KEPT = "not kept: this reply was not asked for in this run, and is not in the reply cache"

Exchanges = Callable[[str, str], Exchange | None]
"""Returns request and reply by question id and `Call.request`; None where they were not kept."""


@dataclass(frozen=True)
class QuestionSpan:
    """One span."""

    name: str  # shown in the tree
    kind: str  # MLflow's type of span
    # inputs, outputs: plain JSON
    inputs: Any
    outputs: Any
    seconds: float = 0.0  # how long it took, when it ran
    error: str = ""  # why it failed, "" when it did not
    attributes: Mapping[str, Any] = field(default_factory=dict)  # what else is known; unknown is left out
    parts: tuple["QuestionSpan", ...] = ()  # the spans inside, in the order in which they began


def question_span(
    score: QuestionScore, rule: str, exchanges: Exchanges | None, causes: str = "", run: str = ""
) -> QuestionSpan:
    """Return a question's span; without `exchanges`, the command that shows its stages stands in place of them.

    The gold SQL stands beside the answer: the question has been scored.
    """
    question, outcome = score.question, score.outcome
    parts = tuple(_stage(score, record, exchanges) for record in outcome.stages) if exchanges else ()
    inputs = {"question": question.text, "evidence": question.evidence, "database": question.database_id}
    answer = {
        "sql": outcome.sql,
        "gold_sql": score.gold_sql,
        "correct": score.final.correct.get(rule),
        "status": status(score),
        **({"causes": causes} if causes else {}),
    }
    return QuestionSpan(
        name=f"question {question.id}",
        kind="CHAIN",
        inputs={name: value for name, value in inputs.items() if value},
        outputs=answer,
        seconds=sum(record.seconds or 0.0 for record in outcome.stages),
        error=what_failed(score),
        attributes=_known(
            notes=list(outcome.notes),
            attempts=outcome.attempts,
            links=_links(score),
            stages=None if exchanges else f"crosscheck show {run} {shlex.quote(question.id)} --prompts",
        ),
        parts=parts,
    )


def what_failed(score: QuestionScore) -> str:
    """Return why a question has no answer or its SQL no result, "" where it has one, right or wrong."""
    failure = score.outcome.failure
    if failure:
        return f"{failure.kind}{failure.stage and f' in {failure.stage}'}: {failure.message}"
    if score.outcome.sql is None:
        return "no SQL"
    return "" if score.final.status == "ok" else f"{score.final.status}: {score.final.error}".rstrip(": ")


def _stage(score: QuestionScore, record: StageRecord, exchanges: Exchanges) -> QuestionSpan:
    return QuestionSpan(
        name=record.label,
        kind="CHAIN",
        inputs=None,
        outputs=record.value,
        seconds=record.seconds or 0.0,
        error=record.error,
        attributes=_known(
            restored=record.restored,
            notes=list(record.notes),
            replies=record.replies,
            unreadable=record.unreadable,
            fallback=record.fallback or None,
            skipped=record.skipped or None,
        ),
        parts=tuple(_calls(score.question.id, record, exchanges)),
    )


def _calls(question: str, record: StageRecord, exchanges: Exchanges) -> Iterator[QuestionSpan]:
    for call in record.calls:
        exchange = exchanges(question, call.request)
        usage = call.usage
        yield QuestionSpan(
            name=call.model or "model",
            kind="CHAT_MODEL",
            inputs={"messages": _messages(exchange)} if exchange else NOT_KEPT,
            outputs=_reply(exchange) if exchange else NOT_KEPT,
            seconds=call.seconds or 0.0,
            attributes=_known(
                paid=not (call.cached or record.restored),
                cached=call.cached,
                restored=record.restored,
                input_tokens=usage.input,
                cached_input_tokens=usage.cached_input,
                cache_write_tokens=usage.cache_write,
                output_tokens=usage.output,
                reasoning_tokens=usage.reasoning,
                cost_usd=call.cost_usd,
                cost_source=call.cost_source,
                from_scratch_usd=call.from_scratch_usd,
                list_usd=call.list_usd,
                tier=call.tier,
                retries=call.retries,
                parse=call.parse,
                request=call.request,
            ),
        )


def _messages(exchange: Exchange) -> list[dict[str, str]]:
    return [{"role": message.role, "content": _cut(message.content)} for message in exchange.messages]


def _reply(exchange: Exchange) -> dict[str, Any]:
    message = {"role": "assistant", "content": _cut(without_thoughts(exchange.reply))}
    if thoughts := thoughts_of(exchange.reply):
        message["reasoning_content"] = _cut(thoughts)
    return {"choices": [{"message": message}]}


def _links(score: QuestionScore) -> dict[str, list[str]]:
    return {name: [str(column) for column in link.columns] for name, link in score.outcome.links.items()}


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n... (cut: {len(text):,} characters)"


def _known(**attributes: Any) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value not in (None, [], {})}
