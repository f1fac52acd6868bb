"""Recordings of a model's replies as JSON lines: kept while a run asks, searched, and replayed."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from tasks.backbone.protocol import (
    Message,
    Origin,
    Reply,
    Request,
    as_texts,
    read_calls,
    request_digest,
    request_key,
    stored_text,
)
from tasks.core.errors import BackboneError, ConfigurationError, CrosscheckError, DataError, first_problem
from tasks.core.files import atomic_write, file_digest, read_file
from tasks.core.outcome import Call, Usage
from tasks.settings.backbone import MAX_TOKENS, BackboneSettings
from tasks.settings.benchmark import QuestionId


def _plausible(usage: Usage) -> Usage:
    if any(count is not None and not 0 <= count <= MAX_TOKENS for count in asdict(usage).values()):
        raise ValueError(f"a number of tokens is from 0 to {MAX_TOKENS:,}")
    return usage


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """One reply: a line of a recording."""

    question: QuestionId  # id of the question it was given for
    database: str  # the benchmark's name of the question's database
    stage: str  # label of the stage that asked
    round: Annotated[int, Field(ge=0)]  # index of the request within the stage's run, 0 for the first
    reply: str  # its text
    # `tasks.backbone.protocol.request_digest` of what was asked; None where that is not known
    request: str | None = None
    model: str = ""  # the model that answered, "" when unknown
    # tokens as they were reported, each None when unknown
    usage: Annotated[Usage, AfterValidator(_plausible)] = field(default_factory=Usage)
    truncated: bool = False  # whether the model stopped at its token limit
    # whether the reply called tools: its text is then an object of text and calls (`tasks.backbone.protocol`)
    tool_calls: bool = False

    @property
    def origin(self) -> Origin:
        """Its position in a run."""
        return Origin(self.question, self.database, self.stage, self.round)


@dataclass(frozen=True)
class Recording:
    """A recording as read."""

    path: Path  # its file
    digest: str  # sha256 of the file
    replies: tuple[RecordedReply, ...]  # its lines, in order, no two for one position


_line: TypeAdapter[RecordedReply] = TypeAdapter(RecordedReply)


def read_recording(path: Path) -> Recording:
    """Read a recording; of lines with the same origin, which must have the same reply, the first counts."""
    try:
        content = read_file(path)
    except OSError as error:
        raise ConfigurationError(
            f"The recording {path} cannot be read: {error.strerror}. Make one with "
            '"crosscheck evaluate --record FILE", or name another with "--set backbone.recording=FILE".'
        ) from None
    lines: dict[Origin, tuple[int, RecordedReply]] = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        reply = _read(line, path, number)
        first_number, first_reply = lines.setdefault(reply.origin, (number, reply))
        if first_reply.reply != reply.reply:
            raise DataError(
                f"{path}: lines {first_number} and {number} give different replies for {reply.origin}. "
                "Take one of them out."
            )
    return Recording(path, hashlib.sha256(content).hexdigest(), tuple(reply for _, reply in lines.values()))


def write_recording(
    path: Path, replies: Iterable[RecordedReply], announce: Callable[[str], None] = lambda sha256: None
) -> int:
    """Write a recording atomically, replacing an existing file; return its number of lines.

    The lines go to a draft, which is renamed to `path` after `announce` was called with its sha256 and did not raise.
    """
    count = 0
    try:
        with atomic_write(path) as draft, draft.open("w", encoding="utf-8", errors="replace") as file:
            for reply in replies:
                line = asdict(reply)
                if not reply.tool_calls:
                    del line["tool_calls"]  # as in recordings without any
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
            announce(file_digest(draft))
    except OSError as error:
        raise CrosscheckError(f"The recording {path} cannot be written: {error.strerror}.") from None
    return count


def _read(line: bytes, path: Path, number: int) -> RecordedReply:
    try:
        reply = _line.validate_json(line)
        if reply.tool_calls:
            read_calls(reply.reply)
    except ValueError as error:
        raise DataError(
            f"{path}, line {number}: this is no line of a recording ({first_problem(error)}). A line is a JSON object "
            "with the keys question, database, stage, round and reply."
        ) from None
    return reply


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and the reply to it."""

    # those that an earlier request of the conversation did not have; () where only replies are kept
    messages: tuple[Message, ...]
    reply: str  # as it is stored (`tasks.backbone.protocol`)
    key: str = ""  # the request's key in the reply cache (`Call.request`)
    digest: str = ""  # the request's `request_digest`, by which recordings know it
    origin: Origin | None = None  # position of the request in the run; None outside of a pipeline
    truncated: bool = False  # whether the model stopped at its token limit
    tool_calls: bool = False  # whether the reply called tools


class Observations:
    """Requests and replies of a run's backbones, by question.

    `recorded` replies are kept until the end, `traced` messages and replies until their question is dropped.
    """

    def __init__(self, *, recorded: bool = False, traced: bool = False) -> None:
        self._recorded = recorded
        self._traced = traced
        self._observed: dict[str, list[Exchange]] = {}

    def add(self, request: Request, reply: Reply) -> None:
        """Keep a request and its reply: the messages only for traces, the digest only for recordings."""
        origin = request.origin
        exchange = Exchange(
            messages=tuple(as_texts(request.messages[request.known :])) if self._traced else (),
            reply=stored_text(reply),
            key=reply.call.request,
            digest=request_digest(request) if self._recorded else "",
            origin=origin,
            truncated=reply.truncated,
            tool_calls=bool(reply.calls),
        )
        self._observed.setdefault(origin.question if origin else "", []).append(exchange)

    def exchange(self, question: str, key: str) -> Exchange | None:
        """Return the exchange of a question's request by its key; None if its messages are not kept."""
        exchanges = reversed(self._observed.get(question, []))
        return next((exchange for exchange in exchanges if exchange.key == key and exchange.messages), None)

    def __iter__(self) -> Iterator[Exchange]:
        """Yield all exchanges by question, in the order of their requests."""
        return chain.from_iterable(self._observed.values())

    def drop(self, question: str) -> None:
        """Drop the messages of a question that is not traced, and its replies too where nothing is recorded."""
        exchanges = self._observed.pop(question, [])
        if self._recorded:
            self._observed[question] = [replace(exchange, messages=()) for exchange in exchanges]


Match = Literal["request", "stage"]


@dataclass
class Served:
    """Counts of requests by how they were answered."""

    by_request: int = 0  # the recording has a reply to exactly this request
    # it has one for this question, stage and round, to another request or to an unknown one
    by_stage: int = 0
    missing: int = 0  # it has none; the question failed

    def __str__(self) -> str:
        return (
            f"{self.by_request:,} by exact request, {self.by_stage:,} by question, stage and round, "
            f"{self.missing:,} not in the recording"
        )


class RecordedBackbone:
    """Backbone that serves recorded replies: to the same request, else, with `match` "stage", to the same position.

    A missing reply is an error of that question. Calls are marked as cached, have no time and no cost, and keep the
    recorded token counts.
    """

    def __init__(self, recording: Recording, match: Match = "stage") -> None:
        self.recording = recording
        self.match = match
        # independent of the file's path
        self.identity: Mapping[str, Any] = {"kind": "replay", "recording": recording.digest, "match": match}
        self.served = Served()
        self._by_origin: dict[Origin | None, RecordedReply] = {
            reply.origin: reply for reply in recording.replies
        }
        self._by_request: dict[str, RecordedReply] = {}
        for reply in recording.replies:
            if reply.request:
                self._by_request.setdefault(reply.request, reply)

    async def complete(self, request: Request) -> Reply:
        """Answer one request from the recording."""
        digest = request_digest(request)
        # Two questions may have sent the same request and received different replies: prefer the question's own.
        own_reply = self._by_origin.get(request.origin)
        is_same_request = own_reply is not None and own_reply.request == digest
        recorded = own_reply if is_same_request else self._by_request.get(digest)
        if recorded is not None:
            self.served.by_request += 1
        elif self.match == "stage" and own_reply:
            recorded = own_reply
            self.served.by_stage += 1
        else:
            self.served.missing += 1
            raise BackboneError(self._missing(request.origin), transient=False)
        call = Call(
            request=request_key(self.identity, request),
            model=recorded.model,
            usage=recorded.usage,
            cached=True,
            seconds=0.0,
            cost_usd=0.0,
        )
        text, calls = read_calls(recorded.reply) if recorded.tool_calls else (recorded.reply, ())
        return Reply(text, call, recorded.truncated, calls)

    def _missing(self, origin: Origin | None) -> str:
        """Return the message for a request that has no recorded reply, with the likely reason."""
        if origin is None:
            return f"no recorded reply to this request in {self.recording.path}"
        missing = f"no recorded reply for {origin} in {self.recording.path}"
        if not self.recording.replies:
            return f"{missing}, which is empty"
        if origin in self._by_origin:
            return f"{missing}: the one there was to another request (match: stage would serve it)"
        databases = (reply.database for reply in self._by_origin.values() if str(reply.origin) == str(origin))
        if database := next(databases, None):
            return f"{missing}: the one there is about the database {database}, not {origin.database}"
        if all(reply.stage != origin.stage for reply in self.recording.replies):
            return f"{missing}, which has none of this stage: another pipeline or other settings made it"
        return missing


def open_recording(settings: BackboneSettings) -> RecordedBackbone:
    """Read the recording that a backbone's settings name."""
    if not settings.recording:
        raise ConfigurationError(
            f'Backbone "{settings.name}" serves a recording: name it with "--set backbone.recording=FILE". '
            'Recordings are made with "crosscheck evaluate --record FILE".'
        )
    return RecordedBackbone(read_recording(Path(settings.recording).expanduser()), settings.match)
