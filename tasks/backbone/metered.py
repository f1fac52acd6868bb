"""A backbone as stages use it: one `ask`, whose calls are counted, paid for once, and kept."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from tasks.backbone.protocol import Backbone, Message, Origin, Reply, Request, request_key
from tasks.backbone.replies.format import ReplyFormats, translated
from tasks.backbone.replies.json_text import Reading
from tasks.backbone.replies.thoughts import without_thoughts
from tasks.backbone.tiers import BATCH
from tasks.core.errors import BackboneError, ExtensionError, first_problem
from tasks.core.outcome import Call
from tasks.core.records import Answer
from tasks.core.registry import awaitable, called, is_shipped, of_type
from tasks.settings.backbone import MAX_TOKENS, BackboneSettings

if TYPE_CHECKING:
    from tasks.backbone.budget import Budget
    from tasks.backbone.cache.store import ReplyCache
    from tasks.backbone.recordings import Observations

log = logging.getLogger(__name__)

FAILED = "failed"
"""`Call.parse` of a reply that could not be read."""


class UnreadableReplies:
    """Counts of a run's replies by stage; the run stops if the first `limit` replies of a stage are all unreadable."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._failed: Counter[str] = Counter()
        self._truncated: Counter[str] = Counter()
        self._readable: set[str] = set()
        self._stopped_by = ""

    def count(self, label: str | None, calls: Iterable[Call], *, truncated: bool = False) -> None:
        """Count replies of the stage with this label; restored, cached and truncated replies count too."""
        stage = (label or "").partition(" ")[0]  # the label of a repeated stage ends with its number
        if not stage or stage in self._readable or not self._limit:
            return
        parses = [call.parse for call in calls]
        self._failed[stage] += len(parses)
        self._truncated[stage] += len(parses) if truncated else 0
        if any(parse != FAILED for parse in parses):
            self._readable.add(stage)
        elif self._failed[stage] >= self._limit:
            self._stopped_by = self._stopped_by or stage  # the first such stage

    def check(self) -> None:
        """Refuse a further request if the run is to stop."""
        if stage := self._stopped_by:
            cut_off = self._truncated[stage]
            advice = (
                "Change the form of the replies with backbone.reply (json, json_with_reasoning, fenced) or "
                "backbone.response_mode (json_schema, json_object, text), in an agent's turn with pipeline.tools "
                "(native, text)."
            )
            if cut_off:
                advice = f"{cut_off:,} of them were cut off at the token limit: raise backbone.max_tokens."
            raise BackboneError(
                f"{stage}: none of the first {self._failed[stage]:,} replies could be read, so the run was stopped to "
                f"avoid further cost. {advice} backbone.unreadable_limit=0 continues regardless.",
                transient=False,
                fatal=True,
            )


T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)

READINGS = 2
"""How often one reply is requested before it counts as unreadable."""

SAMPLES_PER_ATTEMPT = 1000
"""Sample indices that one sampling of a question may use; the next one's begin behind them."""

SAMPLES_PER_CANDIDATE = 1000 * SAMPLES_PER_ATTEMPT
"""Sample indices of one candidate in all samplings of a question; the next one's begin behind them."""

NO_SQL = "no SQL was written"

UNSENT_S = 0.2
"""Seconds in which the requests that were not sent fail, so that they do not count as calls in flight."""

_JSON = ReplyFormats()
_WITHOUT_NAME = BackboneSettings(name="", unreadable_limit=0)


class MeteredBackbone:
    """Backbone as one stage of one question uses it, around a source of replies; it counts the calls.

    The source is an endpoint, the offline model, a recording or one of a user's own. All views of it (`fresh`) share
    the cache, the budget and the calls in flight.

    Any cached reply may be reused: the sample index is part of every key, so a repeated sample is requested as such
    (`Request.sample`), and at temperature 0 it changes nothing. With an epoch, replies are not those of another epoch.
    Equal requests at the same time are sent once; the other callers get the reply as cached. A cached reply costs
    nothing now: its call has `cached` True, 0.0 seconds, no retries and `cost_usd` 0.0, and keeps the tokens as they
    were reported, and what it cost when it was paid as `from_scratch_usd`.

    A call in flight outlives its caller: cancelled (Ctrl-C, a question's deadline), its reply still goes into the cache
    when it comes, but in no stage's cost. `drain` waits for such replies.
    """

    def __init__(
        self,
        source: Backbone,
        formats: ReplyFormats = _JSON,
        *,
        settings: BackboneSettings = _WITHOUT_NAME,
        cache: "ReplyCache | None" = None,
        budget: "Budget | None" = None,
        observations: "Observations | None" = None,
    ) -> None:
        self.source = source
        self._formats = formats
        self._unreadable_replies = UnreadableReplies(settings.unreadable_limit)
        self._settings = settings
        self._cache = cache
        self._budget = budget
        self._observations = observations
        self._in_flight: dict[str, asyncio.Task[Reply]] = {}
        self._origin: Origin | None = None  # the question and the stage that ask
        self._attempt = 0  # which sampling of the question this is: `rerun --fresh` makes another one
        # Index among the SQL candidates that this backbone writes; candidate 0 is the answer without candidates.
        self._candidate = 0
        self.calls: list[Call] = []  # every call that brought a reply, in the order in which they came
        self.again()  # sets the notes and counts of the stage to their beginning
        if cache:
            cache.stop_on_failure(self.wind_down)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The backbone's part of a stage's cache key: source, epoch, reply format, and the candidate's index if not 0.

        So stages that ask a model run once per candidate, and other stages once for all. A recording serves replies by
        question and stage, so both are part of its identity.
        """
        identity = {**self._request_identity, **self._formats.identity(self._stage)}
        if self._candidate:
            identity["candidate"] = self._candidate
        if self._origin and identity.get("kind") == "replay":
            return {**identity, "question": self._origin.question, "stage": self._origin.stage}
        return identity

    @property
    def _request_identity(self) -> Mapping[str, Any]:
        """What the keys of requests have of the backbone."""
        epoch = self._settings.epoch
        return self.source.identity if epoch is None else {**self.source.identity, "epoch": epoch}

    @property
    def _stage(self) -> str | None:
        return self._origin.stage if self._origin else None

    def fresh(self, origin: Origin | None = None, attempt: int = 0) -> "MeteredBackbone":
        """Return a view of the same backbone with no calls yet, for one stage of one question.

        A question that is sampled several times gets other replies in each `attempt`, an index from 0.
        """
        view = copy(self)
        view._origin = origin
        view._attempt = attempt
        view.calls = []
        view.again()
        return view

    def for_candidate(self, index: int) -> "MeteredBackbone":
        """Return a view of the same backbone that writes a candidate; 0 gets the replies of a run that has none."""
        view = self.fresh()
        view._candidate = index
        return view

    def again(self) -> None:
        """Begin the stage, or a retry of it: number its requests from the first, and remove its notes and counts.

        A retry gets the same replies from the cache, so it writes the same notes. The calls stay: they were paid.
        """
        self.notes: list[str] = []  # on replies: unreadable, empty, cut off, or not in the requested form
        self.replies = 0  # that the stage needed; a reply that is requested twice counts once
        self.unreadable = 0  # those of them that could not be read, at the second request either
        self.fallback = ""  # what the stage used in place of the result that it is for
        self._requests = 0

    def note(self, text: str) -> None:
        """Add a note."""
        self.notes.append(text)

    def fall_back(self, text: str) -> None:
        """Record the stage's fallback as a clause, for example "nothing was linked"."""
        self.fallback = self.fallback or text

    @property
    def spent(self) -> dict[str, Any]:
        """What the stage needed so far, by the names of fields of `StageResult` and `StageRecord`."""
        return {
            "calls": tuple(self.calls),
            "notes": tuple(self.notes),
            "replies": self.replies,
            "unreadable": self.unreadable,
            "fallback": self.fallback,
        }

    def count_restored(self, calls: Sequence[Call]) -> None:
        """Count the replies of the stage's restored result for the limit of unreadable ones."""
        self._unreadable_replies.count(self._stage, calls)

    def count_unusable(self, why: str) -> None:
        """Count the last reply as unreadable: its form was right, but the stage could not use it."""
        self.notes.append(why)
        self.unreadable += 1

    # What stages ask for: each of these says what to send, and how the reply is read

    def complete(
        self, request: Request, usable: Callable[[Reply], bool] | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """Answer one request; its reply counts as unreadable where `usable` says that the stage cannot use it."""

        def read(reply: Reply) -> Reading[Reply]:
            return Reading(reply, reply.call.parse if usable is None or usable(reply) else FAILED)

        return self.ask([request], read)

    def ask_text(self, messages: Sequence[Message]) -> Coroutine[Any, Any, str]:
        """Ask for free text; "" for an empty reply. The model's thoughts are left out."""
        request = Request(tuple(messages))
        return self.ask([request], lambda reply: Reading(without_thoughts(reply.text), reply.call.parse))

    def ask_sql(
        self, messages: Sequence[Message], read: Callable[[str], str | None]
    ) -> Coroutine[Any, Any, Answer]:
        """Ask for a query in free text, and once again if `read` finds none; the Answer without one says so."""

        def read_sql(reply: Reply) -> Reading[Answer]:
            text = without_thoughts(reply.text)
            if (sql := read(text)) is not None:
                return Reading(Answer(sql), reply.call.parse)
            start = " ".join(text[:80].split())
            # a reply that was cut off is not requested a second time
            empty = "reply empty" if reply.truncated else "reply empty twice"
            twice = "" if reply.truncated else ", twice"
            note = f'no SQL in the reply{twice}: "{start}"' if start else empty
            return Reading(Answer(None, "the reply held no SQL"), FAILED, note)

        requests = (Request(tuple(messages), sample=sample) for sample in range(READINGS))
        return self.ask(requests, read_sql, otherwise=NO_SQL)

    def ask_json(
        self,
        messages: Sequence[Message],
        reply_type: type[Model],
        *,
        sample: int = 0,
        temperature: float | None = None,
        otherwise: str = "",
    ) -> Coroutine[Any, Any, Model | None]:
        """Ask for an object of a type, and once again when the reply cannot be read as one.

        The conversation is written for a reply of one JSON object, and translated into the reply format of the stage.
        Each of the two requests has a sample index of its own, from `sample * READINGS` on, so that the second one is
        not served the first one's reply from the cache, nor another sample's.

        None, and a note, when no reply could be read; `otherwise` says in a clause what the stage uses instead.
        """
        reply_format = self._formats.format(self._stage)
        origin = f"{type(reply_format).__name__} returned"

        def read(reply: Reply) -> Reading[Model | None]:
            reading = of_type(Reading, called(reply_format.read, reply.text, reply_type), origin)
            if reading.value is not None:
                note = f"reply not as asked: {reading.reason}" if reading.reason else ""
                return Reading(reading.value, reading.path, note)
            start = " ".join((without_thoughts(reply.text) or reply.text)[:80].split())
            # a reply that was cut off is not requested a second time
            times = "" if reply.truncated else " twice"
            empty = f"reply empty{times}"
            note = f'reply unreadable{times}: "{start}" ({reading.reason})' if start else empty
            return Reading(None, FAILED, note)

        formatted = translated(messages, reply_format, reply_type)
        schema = of_type(Mapping | None, called(reply_format.schema, reply_type), origin)
        indices = range(sample * READINGS, (sample + 1) * READINGS)
        requests = (Request(formatted, schema, temperature, index) for index in indices)
        return self.ask(requests, read, otherwise=otherwise)

    # How every request is sent

    async def ask(
        self, requests: Iterable[Request], read: Callable[[Reply], Reading[T]], otherwise: str = ""
    ) -> T:
        """Send one request after another until a reply can be read; return what was read in the last reply.

        `otherwise` says in a clause what the stage uses when no reply can be read.
        """
        for request in requests:
            # 1. Number the request; a run whose replies cannot be read sends no more.
            self._unreadable_replies.check()
            request = self._numbered(request)
            # 2. An equal request in flight is shared. It goes on if its callers are cancelled. Steps 3 to 6: `_answer`.
            if self._cache is None:
                reply = await self._answer(request)
            else:
                key = request_key(self._request_identity, request)
                joined = key in self._in_flight
                if not joined:
                    self._in_flight[key] = asyncio.create_task(self._answer(request, key))
                    self._in_flight[key].add_done_callback(partial(self._landed, key))
                reply = await asyncio.shield(self._in_flight[key])
                reply = _as_cached(reply) if joined else reply
            if self._observations:
                self._observations.add(request, reply)
            # 7. Read the reply, and count its call, also where a user's own reply format fails.
            path = FAILED
            try:
                content = read(reply)
                path = content.path
            finally:
                self._count_call(request, reply, path)
            if content.path != FAILED or reply.truncated:
                break  # it was read; or it was cut off, and the same limit would cut off another reply
        self.replies += 1
        if content.path == FAILED:
            self.unreadable += 1
            self.fall_back(otherwise)
        if content.reason:
            self.notes.append(content.reason)
        return content.value

    async def _answer(self, request: Request, key: str = "") -> Reply:
        """Take steps 3 to 6 of `ask`; `key` is that of the request in the cache, "" without a cache."""
        # 3. A stored reply costs nothing.
        if self._cache and (stored := await self._cache.aget(key)) is not None:
            return _as_cached(stored)
        # 4. A request is sent only if there is money for it, and room for its reply.
        if self._cache:
            self._cache.check_room()
        if self._budget:
            self._budget.check()
        # 5. The request.
        try:
            answer = await awaitable(self.source.complete, request)
            reply = _checked(answer, self.source)
        except BackboneError:
            if self._cache:
                # Where another reply could not be stored meanwhile, the request was not sent: NoRoomError says why.
                self._cache.check_room()
            raise
        # 6. Its reply is charged, and stored before it is used. Of a batch that several processes wait for, the first
        # one that stores a reply has paid for it.
        if self._cache and reply.call.tier == BATCH and (stored := await self._cache.aget(key)) is not None:
            return _as_cached(stored)
        if self._budget:
            self._budget.charge(request, reply, self._settings)
        if self._cache:
            # The reply gets its key here: a user's own backbone computes the key without the epoch.
            reply = replace(reply, call=replace(reply.call, request=key))
            await self._cache.put(reply, request, self._request_identity, self._settings.name)
        return reply

    def _numbered(self, request: Request) -> Request:
        """Return the request with its number in the stage, and a sample index of this attempt and candidate."""
        first_sample = self._attempt * SAMPLES_PER_ATTEMPT + self._candidate * SAMPLES_PER_CANDIDATE
        if first_sample:
            request = replace(request, sample=request.sample + first_sample)
        if self._origin is None:
            return request
        self._requests += 1
        return replace(request, origin=replace(self._origin, round=self._requests - 1))

    def _count_call(self, request: Request, reply: Reply, parse: str) -> None:
        """Count the call of a reply; `parse` is how the reply was read, `FAILED` if it was not."""
        round = request.origin.round if request.origin else 0
        self.calls.append(replace(reply.call, parse=parse, round=round))
        self._unreadable_replies.count(self._stage, self.calls[-1:], truncated=reply.truncated)
        if reply.truncated:
            self.notes.append("reply cut off at the token limit")

    def _landed(self, key: str, call: asyncio.Task[Reply]) -> None:
        self._in_flight.pop(key, None)
        if not call.cancelled() and call.exception() is not None:
            # Retrieve the exception, or asyncio logs it if every caller has been cancelled.
            log.debug("%s: a call failed: %s", self._settings.name, call.exception())

    def wind_down(self) -> None:
        """Send nothing more, if the source can."""
        if wind_down := getattr(self.source, "wind_down", None):
            wind_down()

    async def drain(self, grace_s: float, stop_now: asyncio.Event | None = None) -> int:
        """Send no further requests, wait for calls in flight, and cancel those that take too long; return how many.

        The wait also ends when `stop_now` is set. Replies to cancelled calls may have been paid for and are lost.
        """
        self.wind_down()
        calls = list(self._in_flight.values())
        if not calls:
            return 0
        # Those that were not sent yet fail within this time; `stop_now` must not count them as late.
        await asyncio.wait(calls, timeout=min(UNSENT_S, grace_s))
        stopping = asyncio.create_task((stop_now or asyncio.Event()).wait())
        landing = asyncio.create_task(asyncio.wait(calls))
        await asyncio.wait((landing, stopping), timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        landing.cancel()
        late = [call for call in calls if not call.done()]
        for call in late:
            call.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if late:
            log.warning("%s: %d replies had not come when the run ended", self._settings.name, len(late))
        return len(late)


_CALL = TypeAdapter(Call)


def _checked(answer: Any, source: Backbone) -> Reply:
    """Return the reply of a backbone; raise an error if one of a user's own has values that no run can hold."""
    origin = f"{type(source).__name__} returned"
    reply: Reply = of_type(Reply, answer, origin)
    if is_shipped(type(source)):  # these check what an endpoint reports
        return reply
    of_type(str, reply.text, f"{origin}, as the text of a Reply,")
    of_type(Call, reply.call, f"{origin}, as the call of a Reply,")
    try:
        call = _CALL.validate_python(asdict(reply.call))
    except ValidationError as error:
        raise ExtensionError(f"{origin} a Reply with a wrong call: {first_problem(error)}") from None
    names = ("seconds", "retries", "round", "cost_usd", "from_scratch_usd", "list_usd")
    for name, amount in (asdict(call.usage) | {name: getattr(call, name) for name in names}).items():
        # no call has more tokens, dollars or seconds than that
        if amount is not None and not 0 <= amount <= MAX_TOKENS:
            raise ExtensionError(
                f"{origin} a Reply with a wrong call: {name} is {amount}, not from 0 to {MAX_TOKENS:,}; "
                "None means unknown"
            )
    return replace(reply, call=call)


def _as_cached(reply: Reply) -> Reply:
    call = reply.call
    cached = replace(
        call, cached=True, seconds=0.0, retries=0, cost_usd=0.0, from_scratch_usd=call.uncached_cost_usd
    )
    return replace(reply, call=cached)
