"""Backbone that answers from a recording only."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasks.backbone.protocol import Origin, Reply, Request, request_digest, request_key
from tasks.backbone.recordings.file import RecordedReply, Recording, ReplyPosition, read_recording
from tasks.backbone.stored_text import with_calls
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import Call
from tasks.settings.backbone import BackboneSettings

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
    """Backbone that serves recorded replies: by exact request, else, unless `match` is "request", by position.

    A missing reply is an error of that question. Calls are marked as cached, have no time and no cost, and keep the
    recorded token counts.

    Attributes:
        recording: the recording.
        match: "request": exact requests only; "stage": also by question, stage and round.
        served: counts of requests by how they were answered.
    """

    def __init__(self, recording: Recording, match: Match = "stage") -> None:
        self.recording = recording
        self.match = match
        self.served = Served()
        self._at: dict[ReplyPosition, RecordedReply] = {reply.place: reply for reply in recording.replies}
        self._to: dict[str, RecordedReply] = {}
        for reply in recording.replies:
            if reply.request:
                self._to.setdefault(reply.request, reply)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Digest of the recording and how it is matched; independent of the file's path."""
        return {"kind": "replay", "recording": self.recording.digest, "match": self.match}

    async def complete(self, request: Request) -> Reply:
        """Answer one request from the recording.

        Raises:
            BackboneError: the recording has no reply to it; not retryable.
        """
        found = self._by_request(request)
        if found is not None:
            self.served.by_request += 1
        elif self.match == "stage" and request.origin and (found := self._by_stage(request.origin)):
            self.served.by_stage += 1
        else:
            self.served.missing += 1
            raise BackboneError(self._missing(request.origin), transient=False)
        call = Call(
            request=request_key(self.identity, request),
            model=found.model,
            usage=found.usage,
            cached=True,
            seconds=0.0,
            cost_usd=0.0,
        )
        reply = Reply(found.reply, call, found.truncated)
        try:
            return with_calls(reply) if found.tool_calls else reply
        except ValueError as error:
            raise BackboneError(f"{found.place} in {self.recording.path}: {error}", transient=False) from None

    def _by_request(self, request: Request) -> RecordedReply | None:
        digest = request_digest(request)
        # Two questions may have sent the same request and received different replies: prefer the question's own.
        own = self._by_stage(request.origin) if request.origin else None
        return own if own and own.request == digest else self._to.get(digest)

    def _by_stage(self, origin: Origin) -> RecordedReply | None:
        found = self._at.get(_place(origin))
        return found if found and found.database == origin.database else None

    def _missing(self, origin: Origin | None) -> str:
        if origin is None:
            return f"no recorded reply to this request in {self.recording.path}"
        missing = f"no recorded reply for {_place(origin)} in {self.recording.path}"
        there = self._at.get(_place(origin))
        if there and there.database != origin.database:
            return f"{missing}: the one there is about the database {there.database}, not {origin.database}"
        if there:
            return f"{missing}: the one there was to another request (match: stage would serve it)"
        return missing


def open_recording(settings: BackboneSettings) -> RecordedBackbone:
    """Read the recording that a backbone's settings name.

    Raises:
        ConfigurationError: they name none, or the file is absent.
        DataError: it is no recording.
    """
    if not settings.recording:
        raise ConfigurationError(
            f'Backbone "{settings.name}" serves a recording: name it with "--set backbone.recording=FILE". '
            'Recordings are made with "crosscheck evaluate --record FILE".'
        )
    return RecordedBackbone(read_recording(Path(settings.recording).expanduser()), settings.match)


def _place(origin: Origin) -> ReplyPosition:
    return ReplyPosition(origin.question, origin.stage, origin.round)
