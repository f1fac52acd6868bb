"""Questions as MLflow traces, written in bulk: a span per question, stage and model call, and the verdict.

MLflow's own tracing opens and closes every span while a program runs and sends each by itself, 25 to 40 traces a
second. The ways are known here when the run ends, so many traces are sent at once.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tasks.backbone.recordings import Exchange
from tasks.backbone.replies.thoughts import thoughts_of, without_thoughts
from tasks.core.outcome import Call, StageRecord
from tasks.core.wording import storable
from tasks.results.mlflow.store import Store, attempt
from tasks.results.parameters import redact, secrets_of
from tasks.results.run_record import RunRecord, Tracked
from tasks.scoring.scores import QuestionScore, is_right

if TYPE_CHECKING:
    from mlflow.entities import Assessment, Span, TraceInfo


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """The questions that are traced, in the order of the run."""

    whole: tuple[QuestionScore, ...]  # with their stages and model calls
    brief: tuple[QuestionScore, ...]  # with their question, answer and verdict only
    scored: int  # how many questions are scored
    flipped: Collection[str] = ()  # ids of the questions with another verdict than in the previous run
    # ids of the questions in `brief` that would be in `whole` if the previous run had another verdict on them
    unchanged: Collection[str] = ()
    causes: Mapping[str, str] = field(default_factory=dict)  # why answers are wrong, by question id

    @property
    def is_sample(self) -> bool:
        """Whether some scored questions have no trace, so that shares of the traces are not those of the run."""
        return len(self.whole) + len(self.brief) < self.scored

    def __str__(self) -> str:
        text = f"traces: {len(self.whole):,} of {self.scored:,} scored questions with their stages"
        text += f", {len(self.brief):,} others without their stages" if self.brief else ""
        return (
            f"{text}; shares in MLflow's Traces tab describe only these questions" if self.is_sample else text
        )


def choose(
    record: RunRecord,
    *,
    failed: int,
    sample: int,
    every: bool = False,
    flipped: Collection[str] = (),
    unchanged: Collection[str] = (),
) -> TraceChoice:
    """Choose the questions of a run that have a trace, among those that are scored.

    At most `failed` questions are traced because of their outcome: first those that failed, then those in `flipped`,
    then wrong ones. `sample` questions are traced whatever their outcome: the ids alone decide which, so runs of the
    same questions show the same sample. Traces of questions in `unchanged` are brief, without stages; with `every`, so
    are those of all other questions. `flipped` are the ids of questions with another verdict than in the previous run.
    """
    rows = [row for row in record.rows if row.executable]
    names = [row.question.id for row in rows]
    failures = [row.question.id for row in rows if is_failed(row)]
    wrong = [row.question.id for row in rows if not is_right(row.final, record.rule)]
    traced: frozenset[str] = frozenset()
    for ids in (failures, [name for name in names if name in flipped], wrong):
        places_left = max(failed - len(traced), 0)
        traced |= sample_of(set(ids) - traced, places_left)
    chosen = sample_of(names, sample) | traced
    whole_ids = chosen - set(unchanged)
    brief_ids = set(names if every else chosen) - whole_ids
    causes = record.measurements.get("errors")
    return TraceChoice(
        whole=tuple(row for row in rows if row.question.id in whole_ids),
        brief=tuple(row for row in rows if row.question.id in brief_ids),
        scored=len(rows),
        flipped=flipped,
        unchanged=chosen - whole_ids,
        causes={name: str(why) for name, why in causes.by_question.items() if why} if causes else {},
    )


def is_failed(row: QuestionScore) -> bool:
    """Return whether a question has no answer, or one that cannot be executed; a wrong answer is no failure."""
    return row.outcome.sql is None or row.outcome.failure is not None or row.final.status != "ok"


def sample_of(ids: Iterable[str], count: int) -> frozenset[str]:
    """Return a sample of so many questions, by their ids alone."""
    return frozenset(sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())[:count])


MAX_CHARACTERS = 50_000
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
    score: QuestionScore, rule: str, exchanges: Exchanges | None, causes: str, run: str
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
        "status": score.status,
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
            links={name: [str(column) for column in link.columns] for name, link in outcome.links.items()},
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
        paid = not (call.cached or record.restored)
        yield QuestionSpan(
            name=call.model or "model",
            kind="CHAT_MODEL",
            inputs={"messages": _messages(exchange)} if exchange else NOT_KEPT,
            outputs=_reply(exchange) if exchange else NOT_KEPT,
            seconds=call.seconds or 0.0,
            attributes=_usage(call, paid=paid) | _known(paid=paid, restored=record.restored, **_facts(call)),
        )


def _facts(call: Call) -> dict[str, Any]:
    facts = asdict(call)
    tokens = facts.pop("usage")
    return facts | {f"{name}_tokens": count for name, count in tokens.items()}


def _usage(call: Call, *, paid: bool) -> dict[str, Any]:
    """Return what MLflow adds up: the tokens that this run paid for, and their cost.

    If a span names a model but no cost, MLflow computes a cost from its own price list, without the discount for cached
    input. Therefore, where the cost is unknown, the span has no model attribute; its name still contains the model.
    """
    sent, received = call.usage.input, call.usage.output
    attributes: dict[str, Any] = {"mlflow.message.format": "openai"}
    if not paid or call.cost_usd is not None:
        attributes["mlflow.llm.model"] = call.model or "model"
    if paid and sent is not None and received is not None:
        attributes["mlflow.chat.tokenUsage"] = _known(
            input_tokens=sent,
            output_tokens=received,
            total_tokens=sent + received,
            cache_read_input_tokens=call.usage.cached_input,
            cache_creation_input_tokens=call.usage.cache_write,
        )
    if paid and call.cost_usd is not None:
        attributes["mlflow.llm.cost"] = {"total_cost": call.cost_usd}
    return attributes


def _messages(exchange: Exchange) -> list[dict[str, str]]:
    return [{"role": message.role, "content": _cut(message.content)} for message in exchange.messages]


def _reply(exchange: Exchange) -> dict[str, Any]:
    message = {"role": "assistant", "content": _cut(without_thoughts(exchange.reply))}
    if thoughts := thoughts_of(exchange.reply):
        message["reasoning_content"] = _cut(thoughts)
    return {"choices": [{"message": message}]}


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n... (cut: {len(text):,} characters)"


def _known(**attributes: Any) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value not in (None, [], {})}


BATCH = 20
"""Traces whose spans are sent at once: some 2 MB where prompts are long."""
SENDERS = 4
"""Connections to a server; a file has one writer at a time."""
PREVIEW = 1000
"""Characters of question and answer in MLflow's list of traces."""


def log_traces(
    store: Store, run: RunRecord, tracked: Tracked, choice: TraceChoice, exchanges: Exchanges
) -> str:
    """Write traces and link them with their MLflow run; replace those of an earlier call.

    Returns why they could not all be written, as a clause; "" if they were.
    """
    if not (choice.whole or choice.brief):
        return ""
    if tracked.run_id is None or tracked.experiment_id is None:
        return "there is no MLflow run to link them with."
    maker = _Maker(run, tracked.run_id, tracked.experiment_id, choice)
    scores = [(score, exchanges) for score in choice.whole] + [(score, None) for score in choice.brief]
    return attempt(store, lambda _: _send(store, maker, scores))


def _send(store: Store, maker: "_Maker", scores: Sequence[tuple[QuestionScore, Exchanges | None]]) -> None:
    """Send a batch after the other, so that only one batch's prompts are in memory."""
    from mlflow.tracing.client import TracingClient

    client = TracingClient(store.uri)
    with ThreadPoolExecutor(SENDERS if store.served else 1) as senders:
        for start in range(0, len(scores), BATCH):
            batch = [maker.make(score, exchanges) for score, exchanges in scores[start : start + BATCH]]
            # In this order: a trace that began with its spans would be written twice.
            list(senders.map(client.start_trace, [info for info, _ in batch]))
            client.log_spans(maker.experiment_id, [span for _, spans in batch for span in spans])


class _Maker:
    """Makes traces of one run. Their ids follow from the run's and the question's."""

    def __init__(self, run: RunRecord, run_id: str, experiment_id: str, choice: TraceChoice) -> None:
        self._run = run
        self._choice = choice
        self._run_id = run_id
        self._verdict = "correct (sample)" if choice.is_sample else "correct"
        self.experiment_id = experiment_id
        self._secrets = secrets_of(run.settings_of("backbone"))
        self._started_ns = int(run.started.timestamp() * 1000) * 1_000_000

    def make(self, score: QuestionScore, exchanges: Exchanges | None) -> "tuple[TraceInfo, list[Span]]":
        """Return the trace of a question and its spans."""
        from mlflow.entities import TraceInfo, TraceLocation, TraceState

        causes = self._choice.causes.get(score.question.id, "")
        span = question_span(score, self._run.rule, exchanges, causes, run=self._run.run_id)
        trace_id = f"tr-{_hex(f'{self._run_id} {score.question.id}', 32)}"
        spans = list(self._spans(span, trace_id, parent="", position="0", start_ns=self._started_ns))
        info = TraceInfo(
            trace_id=trace_id,
            trace_location=TraceLocation.from_experiment_id(self.experiment_id),
            request_time=self._started_ns // 1_000_000,
            state=TraceState.ERROR if span.error else TraceState.OK,
            request_preview=storable(f"{score.question.id} · {score.question.text}")[:PREVIEW],
            response_preview=self._safe(score.outcome.sql or span.error)[:PREVIEW],
            execution_duration=round(span.seconds * 1000),
            trace_metadata={"mlflow.sourceRun": self._run_id, "mlflow.source.name": "crosscheck"},
            tags=self._tags(score, span),
            assessments=self._assessments(score, span, spans[0].span_id),
        )
        return info, spans

    def _tags(self, score: QuestionScore, span: QuestionSpan) -> dict[str, str]:
        correct = is_right(score.final, self._run.rule)
        flip = "fixed" if correct else "broken"
        tags = {
            "mlflow.traceName": span.name,
            "question_id": score.question.id,
            "database": score.question.database_id,
            "difficulty": score.question.difficulty,
            "correct": str(correct).lower(),
            "failure": score.status if span.error else None,
            "flipped": flip if score.question.id in self._choice.flipped else None,
            "unchanged": "true" if score.question.id in self._choice.unchanged else None,
        }
        return {name: storable(value)[:PREVIEW] for name, value in tags.items() if value}

    def _assessments(self, score: QuestionScore, span: QuestionSpan, span_id: str) -> "list[Assessment]":
        from mlflow.entities import AssessmentSource, Expectation, Feedback

        correct = is_right(score.final, self._run.rule)
        source = AssessmentSource("CODE", f"crosscheck, rule {self._run.rule}")
        of_run = {"mlflow.assessment.sourceRunId": self._run_id}
        why = "the same result as the gold SQL" if correct else "another result than the gold SQL"
        common: dict[str, Any] = {"source": source, "metadata": of_run, "span_id": span_id}
        assessments: list[Assessment] = [
            Feedback(self._verdict, correct, rationale=self._safe(span.error or why), **common),
            Expectation("expected_response", storable(score.gold_sql), **common),
        ]
        if causes := self._choice.causes.get(score.question.id):
            assessments.append(Feedback("causes", causes, **common))
        return assessments

    def _spans(
        self, span: QuestionSpan, trace_id: str, parent: str, position: str, start_ns: int
    ) -> "Iterator[Span]":
        """Yield a span, then its parts, each of them starting where the last one ends: only lengths were measured."""
        from mlflow.entities import Span

        span_id = _hex(f"{trace_id} {position}", 16)
        end_ns = start_ns + _ns(span.seconds)
        attributes = {
            "mlflow.traceRequestId": trace_id,
            "mlflow.spanType": span.kind,
            "mlflow.spanInputs": span.inputs,
            "mlflow.spanOutputs": span.outputs,
            **span.attributes,
        }
        exception = {"exception.type": "failed", "exception.message": self._safe(span.error)}
        event = {"name": "exception", "time_unix_nano": end_ns, "attributes": exception}
        yield Span.from_dict(
            {
                "trace_id": trace_id,
                "span_id": span_id,
                "parent_span_id": parent,
                "name": storable(span.name),
                "start_time_unix_nano": start_ns,
                "end_time_unix_nano": end_ns,
                "attributes": {
                    name: self._safe(json.dumps(redact(value, *self._secrets), ensure_ascii=False))
                    for name, value in attributes.items()
                    if value is not None
                },
                "status": {
                    "code": "STATUS_CODE_ERROR" if span.error else "STATUS_CODE_OK",
                    "message": self._safe(span.error),
                },
                "events": [event] if span.error else [],  # MLflow hides the message of the status
            }
        )
        for number, part in enumerate(span.parts):
            yield from self._spans(part, trace_id, span_id, f"{position}.{number}", start_ns)
            start_ns += _ns(part.seconds)

    def _safe(self, text: str) -> str:
        return storable(str(redact(text, *self._secrets)))


def _hex(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
