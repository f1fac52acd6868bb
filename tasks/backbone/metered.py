"""A stage's view of a backbone: typed replies, recorded calls, and a limit on unreadable replies."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

from tasks.backbone.protocol import Backbone, Message, Origin, Reply, Request
from tasks.backbone.replies.format import ReplyFormats, translated
from tasks.backbone.replies.thoughts import without_thoughts
from tasks.core.errors import BackboneError
from tasks.core.outcome import Call
from tasks.core.records import Answer
from tasks.settings.backbone import BackboneSettings

FAILED = "failed"
"""`Call.parse` of a reply that could not be read."""


class UnreadableReplies:
    """Counts of a run's replies by stage; the run stops if the first `limit` replies of a stage are all unreadable."""

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self._failed: Counter[str] = Counter()
        self._truncated: Counter[str] = Counter()
        self._read: set[str] = set()
        self._stopped_by = ""

    def count(self, label: str | None, calls: Iterable[Call], *, truncated: bool = False) -> None:
        """Count replies of a stage, given its label; restored, cached and truncated ones too."""
        stage = (label or "").partition(" ")[0]
        if not stage or stage in self._read or not self._limit:
            return
        parses = [call.parse for call in calls]
        self._failed[stage] += len(parses)
        self._truncated[stage] += len(parses) if truncated else 0
        if any(parse != FAILED for parse in parses):
            self._read.add(stage)
        elif self._failed[stage] >= self._limit:
            self._stopped_by = self._stopped_by or stage

    def check(self) -> None:
        """Refuse a further request if the run is to stop."""
        if self._stopped_by:
            stage = self._stopped_by
            cut_off = self._truncated[stage]
            reason = (
                f"{cut_off:,} of them were cut off at the token limit: raise backbone.max_tokens."
                if cut_off
                else "Change the form of the replies with backbone.reply (json, json_with_reasoning, fenced) or "
                "backbone.response_mode (json_schema, json_object, text), in an agent's turn with pipeline.tools "
                "(native, text)."
            )
            raise BackboneError(
                f"{stage}: none of the first {self._failed[stage]:,} replies could be read, so the run was stopped to "
                f"avoid further cost. {reason} backbone.unreadable_limit=0 continues regardless.",
                transient=False,
                fatal=True,
            )


T = TypeVar("T", bound=BaseModel)

READINGS = 2
"""How often one reply is requested before it counts as unreadable."""

SAMPLES_PER_ATTEMPT = 1000
"""Sample indices that one sampling of a question may use; the next one's begin behind them."""

SAMPLES_PER_CANDIDATE = 1000 * SAMPLES_PER_ATTEMPT
"""Sample indices of one candidate in all samplings of a question; the next one's begin behind them."""

NO_SQL = "no SQL was written"

_JSON = ReplyFormats()


class MeteredBackbone:
    """Backbone that counts the calls of one stage of one question.

    Args:
        inner: the backbone.
        formats: in which form it answers.
        origin: the stage of the question that asks.
        attempt: index of the question's sampling.
        candidate: index among the candidates that this backbone writes to a question; 0 is what it writes alone.
        guard: ends the run when the first replies of a stage all cannot be read; None: never.
    """

    def __init__(
        self,
        inner: Backbone,
        formats: ReplyFormats = _JSON,
        *,
        origin: Origin | None = None,
        attempt: int = 0,
        candidate: int = 0,
        guard: UnreadableReplies | None = None,
    ) -> None:
        self.inner = inner
        self._formats = formats
        self._origin = origin
        self._attempt = attempt
        self._candidate = candidate
        self._guard = guard or UnreadableReplies()
        self.calls: list[Call] = []  # every call that brought a reply, in the order in which they came
        self.again()

    @classmethod
    def of(cls, inner: Backbone, settings: BackboneSettings) -> "MeteredBackbone":
        """Return a view of a backbone for one run, with the reply formats and the limit that its settings name."""
        guard = UnreadableReplies(settings.unreadable_limit)
        return cls(inner, ReplyFormats.of(settings), guard=guard)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inner backbone's, the reply format, and any candidate but the first; a recording's also the place.

        So the stages of a candidate that ask a model have keys of their own, and those that ask none are shared.
        """
        identity = {**self.inner.identity, **self._formats.identity(self._stage)}
        if self._candidate:
            identity["candidate"] = self._candidate
        if self._origin and identity.get("kind") == "replay":
            return {**identity, "question": self._origin.question, "stage": self._origin.stage}
        return identity

    def fresh(self, origin: Origin | None = None, attempt: int = 0) -> "MeteredBackbone":
        """Return a view of the same backbone with no calls yet, for one stage of one question.

        Each sampling of the question, by its index `attempt`, gets replies of its own.
        """
        return MeteredBackbone(
            self.inner,
            self._formats,
            origin=origin,
            attempt=attempt,
            candidate=self._candidate,
            guard=self._guard,
        )

    def for_candidate(self, index: int) -> "MeteredBackbone":
        """Return a view of the same backbone that writes a candidate; 0 gets the replies of a run without any."""
        return MeteredBackbone(self.inner, self._formats, candidate=index, guard=self._guard)

    def again(self) -> None:
        """Begin a repetition of the stage: number its requests from the first, and remove its notes and counts.

        The calls stay. The notes would be the same, since the repetition gets the same replies, from the cache.
        """
        self.notes: list[str] = []  # on replies: unreadable, empty, cut off, or not in the requested form
        self.replies = 0  # that the stage needed; a reply that is requested twice counts once
        self.unreadable = 0  # those of them that could not be read, at the second request either
        self.fallback = ""  # what the stage used in place of the result that it is for
        self._asked = 0

    def note(self, text: str) -> None:
        """Add a note."""
        self.notes.append(text)

    def fall_back(self, text: str) -> None:
        """Record the stage's fallback as a clause, for example "nothing was linked"."""
        self.fallback = self.fallback or text

    def count_restored(self, calls: Sequence[Call]) -> None:
        """Count the replies of the stage's restored result for the limit of unreadable ones."""
        self._guard.count(self._stage, calls)

    def count_unusable(self, why: str) -> None:
        """Count the last reply as unreadable: its form was right, but the stage could not use it."""
        self.notes.append(why)
        self.unreadable += 1

    async def complete(self, request: Request, usable: Callable[[Reply], bool] | None = None) -> Reply:
        """Answer one request and count its call, as unreadable where the stage cannot use the reply."""
        placed = self._placed(request)
        reply = await self.inner.complete(placed)
        readable = usable is None or usable(reply)
        self._book(placed, reply, reply.call.parse if readable else FAILED)
        self._count(readable=readable)
        return reply

    async def ask_text(
        self, messages: Sequence[Message], *, sample: int = 0, temperature: float | None = None
    ) -> str:
        """Ask for free text; "" for an empty reply. The model's thoughts are left out."""
        request = Request(tuple(messages), temperature=temperature, sample=sample)
        return without_thoughts((await self.complete(request)).text)

    async def ask_sql(self, messages: Sequence[Message], read: Callable[[str], str | None]) -> Answer:
        """Ask for a query in free text, and once again when `read` finds none; without one, the Answer has a note."""
        text = ""
        for sample in range(READINGS):
            request = self._placed(Request(tuple(messages), sample=sample))
            reply = await self.inner.complete(request)
            text = without_thoughts(reply.text)
            sql = read(text)
            self._book(request, reply, FAILED if sql is None else reply.call.parse)
            if sql is not None:
                self._count(readable=True)
                return Answer(sql)
            if reply.truncated:
                break  # the same limit would cut it off again
        self._count(readable=False)
        self.fall_back(NO_SQL)
        start = " ".join(text[:80].split())
        twice = not reply.truncated
        if start:
            self.notes.append(f'no SQL in the reply{", twice" if twice else ""}: "{start}"')
        else:
            self.notes.append("reply empty twice" if twice else "reply empty")
        return Answer(None, "the reply held no SQL")

    async def ask_json(
        self,
        messages: Sequence[Message],
        reply_type: type[T],
        *,
        sample: int = 0,
        temperature: float | None = None,
        otherwise: str = "",
    ) -> T | None:
        """Ask for an object of a type, and once again when the reply cannot be read as one.

        The conversation is written for a reply of one JSON object, and translated into the reply format of the stage.
        Each asking is a request of its own, with the index `sample * READINGS + attempt`, so that the second
        one is not served the first one's reply from the cache, nor another sample's.

        Args:
            messages: the conversation so far.
            reply_type: a pydantic model; it is also where the JSON schema comes from.
            sample: index among repeated samples.
            temperature: None for the backbone's own.
            otherwise: what the stage uses when no reply can be read, as for `fall_back`.

        Returns:
            The object; None when no reply could be read, which is noted.
        """
        reply_format = self._formats.format(self._stage)
        formatted = translated(messages, reply_format, reply_type)
        schema = reply_format.schema(reply_type)
        for attempt in range(READINGS):
            index = sample * READINGS + attempt
            request = self._placed(Request(formatted, schema, temperature, index))
            reply = await self.inner.complete(request)
            reading = reply_format.read(reply.text, reply_type)
            self._book(request, reply, reading.path)
            if reading.value is not None:
                self._count(readable=True)
                if reading.reason:
                    self.notes.append(f"reply not as asked: {reading.reason}")
                return reading.value
            if reply.truncated:
                break  # the same limit would cut it off again
        self._count(readable=False)
        self.fall_back(otherwise)
        start = " ".join((without_thoughts(reply.text) or reply.text)[:80].split())
        times = "" if reply.truncated else " twice"
        self.notes.append(
            f'reply unreadable{times}: "{start}" ({reading.reason})' if start else f"reply empty{times}"
        )
        return None

    @property
    def _stage(self) -> str | None:
        return self._origin.stage if self._origin else None

    def _placed(self, request: Request) -> Request:
        """Return the request with its origin, numbered in the order of asking, and the sample index of its sampling."""
        self._guard.check()
        first = self._attempt * SAMPLES_PER_ATTEMPT + self._candidate * SAMPLES_PER_CANDIDATE
        if first:
            request = replace(request, sample=request.sample + first)
        if self._origin is None:
            return request
        placed = replace(request, origin=replace(self._origin, round=self._asked))
        self._asked += 1
        return placed

    def _count(self, *, readable: bool) -> None:
        self.replies += 1
        self.unreadable += not readable

    def _book(self, request: Request, reply: Reply, parse: str) -> None:
        place = request.origin.round if request.origin else 0
        self.calls.append(replace(reply.call, parse=parse, round=place))
        self._guard.count(self._stage, self.calls[-1:], truncated=reply.truncated)
        if reply.truncated:
            self.notes.append("reply cut off at the token limit")
