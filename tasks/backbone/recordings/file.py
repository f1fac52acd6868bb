"""Recordings: JSON lines files of a model's replies, which can be searched, cut and concatenated."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from tasks.core.errors import ConfigurationError, CrosscheckError, DataError, first_problem
from tasks.core.files import atomic_write, file_digest
from tasks.core.outcome import Usage

QuestionId = Annotated[str, BeforeValidator(lambda id: str(id) if type(id) is int else id)]


@dataclass(frozen=True, slots=True)
class ReplyPosition:
    """Position of a reply in a run."""

    question: str  # id of the question
    stage: str  # label of the stage
    round: int  # index of the request within the stage's run, 0 for the first

    def __str__(self) -> str:
        return f"question {self.question}, stage {self.stage}, round {self.round}"


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
    usage: Usage = field(default_factory=Usage)  # tokens as they were reported, each None when unknown
    truncated: bool = False  # whether the model stopped at its token limit
    # whether the reply called tools: its text is then an object of text and calls (`tasks.backbone.stored_text`)
    tool_calls: bool = False

    @property
    def place(self) -> ReplyPosition:
        """Its position in a run."""
        return ReplyPosition(self.question, self.stage, self.round)


@dataclass(frozen=True)
class Recording:
    """A recording as read."""

    path: Path  # its file
    digest: str  # sha256 of the file
    replies: tuple[RecordedReply, ...]  # its lines, in order, no two for one place


_line: TypeAdapter[RecordedReply] = TypeAdapter(RecordedReply)


def read_recording(path: Path) -> Recording:
    """Read a recording.

    Raises:
        ConfigurationError: there is no such file.
        DataError: a line is malformed, or two lines give different replies for one place.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"The recording {path} cannot be read: {error.strerror}. Make one with "
            '"crosscheck evaluate --record FILE", or name another with "--set backbone.recording=FILE".'
        ) from None
    replies: dict[ReplyPosition, RecordedReply] = {}
    lines: dict[ReplyPosition, int] = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        reply = _read(line, path, number)
        known = replies.get(reply.place)
        if known is None:
            replies[reply.place], lines[reply.place] = reply, number
        elif known.reply != reply.reply:
            raise DataError(
                f"{path}: lines {lines[reply.place]} and {number} give different replies for {reply.place}. "
                "Take one of them out."
            )
    return Recording(Path(path), hashlib.sha256(content).hexdigest(), tuple(replies.values()))


def write_recording(
    path: Path, replies: Iterable[RecordedReply], announce: Callable[[str], None] = lambda sha256: None
) -> int:
    """Write a recording atomically, replacing an existing file; return its number of lines.

    Args:
        path: the file.
        replies: its lines.
        announce: called with the sha256 of the whole file before it takes its name; if this raises, it does not.

    Raises:
        CrosscheckError: the file cannot be written.
    """
    count = 0
    try:
        with atomic_write(Path(path)) as draft, draft.open("w", encoding="utf-8", errors="replace") as file:
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
        return _line.validate_json(line)
    except ValidationError as error:
        raise DataError(
            f"{path}, line {number}: this is no line of a recording ({first_problem(error)}). A line is a JSON object "
            "with the keys question, database, stage, round and reply."
        ) from None
