"""Recordings of evaluations: every reply to their questions, those of restored stages included."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.backbone.cache.entry import LENGTH
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.protocol import TOOL_CALLS, digest_of_canonical
from tasks.backbone.recordings import (
    Observation,
    Observations,
    RecordedReply,
    ReplyPosition,
    read_recording,
    write_recording,
)
from tasks.core.errors import ConfigurationError
from tasks.core.files import check_writable, file_digest
from tasks.core.outcome import Call, Outcome
from tasks.core.records import Question
from tasks.results.parameters import stored_settings
from tasks.results.run_record import KINDS
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from tasks.backbone.cache.store import ReplyCache


@dataclass(frozen=True)
class _RecordedText:
    """Reply without its cost; `request` is the `request_digest` of its request."""

    request: str
    text: str
    truncated: bool
    tool_calls: bool = False


@dataclass(frozen=True)
class Recorded:
    """A recording that was written."""

    # what the run's summary has of it, by which a repetition of the evaluation knows its own recording
    facts: Mapping[str, Any]
    message: str  # a sentence on it


@dataclass(frozen=True)
class Recorder:
    """Writer of an evaluation's recording, after every question has its outcome.

    Replies of this run come from the observed backbone, those of restored stages from the reply cache. Backbones
    without cached replies are free, and answer all requests again.
    """

    path: Path  # the recording
    backbone: Observations  # the observed backbone
    cache: "ReplyCache"  # cache of paid replies

    def write(
        self,
        questions: Sequence[Question],
        outcomes: Mapping[str, Outcome],
        note: Callable[[Mapping[str, Any]], None],
    ) -> Recorded:
        """Write the recording.

        Args:
            questions: those of the evaluation.
            outcomes: by question id.
            note: keeps `Recorded.facts` with the run. It is called before the recording takes its name, so that a
                repetition knows the file as its own whenever this process is killed.
        """
        lost: list[ReplyPosition] = []
        facts: dict[str, Any] = {}

        def announce(sha256: str) -> None:
            facts["recorded"] = {"file": str(self.path), "sha256": sha256}
            note(facts)

        answered = [question for question in questions if question.id in outcomes]
        replies = _recorded_replies(answered, outcomes, self.cache, lost, self.backbone)
        count = write_recording(self.path, replies, announce)
        message = f"{count:,} replies to {len(answered):,} questions are recorded in {self.path}."
        if lost:
            message += (
                f" {len(lost):,} are missing, the first at {lost[0]}: their stages were restored, and the reply "
                "cache no longer has them, or they are damaged there."
            )
        return Recorded(facts, message)


def _recorded_replies(
    questions: Sequence[Question],
    outcomes: Mapping[str, Outcome],
    cache: "ReplyCache",
    lost: list[ReplyPosition],
    observed: Iterable[Observation],
) -> Iterator[RecordedReply]:
    """Yield the replies to questions as lines of a recording.

    Args:
        questions: those whose replies are wanted.
        outcomes: by question id, one for each question.
        cache: cache of paid replies.
        lost: receives the places of replies that are not there any more.
        observed: requests and replies that were kept during the run; they need not be in the cache.
    """
    by_place, by_key = {}, {}
    for seen in observed:
        recorded = _RecordedText(seen.digest, seen.exchange.reply, seen.truncated, seen.tool_calls)
        by_place[seen.place] = by_key[seen.key] = recorded
    for question in questions:
        for record in outcomes[question.id].stages:
            for call in record.rounds:
                place = ReplyPosition(question.id, record.label, call.round)
                reply = by_place.get(place) or by_key.get(call.request) or _cached(cache, call)
                if reply is None:
                    lost.append(place)
                    continue
                yield RecordedReply(
                    question=question.id,
                    database=question.database_id,
                    stage=record.label,
                    round=call.round,
                    reply=reply.text,
                    request=reply.request,
                    model=call.model,
                    usage=call.usage,
                    truncated=reply.truncated,
                    tool_calls=reply.tool_calls,
                )


def _cached(cache: "ReplyCache", call: Call) -> _RecordedText | None:
    entry = cache.entry(call.request)
    if entry is None:
        return None
    called = entry.finish.startswith(TOOL_CALLS)
    return _RecordedText(digest_of_canonical(entry.request), entry.text, LENGTH in entry.finish, called)


def check_record(settings: EvaluationSettings, questions: Collection[str]) -> None:
    """Check, before the first paid call, that the recording can be written and takes no reply from an earlier one.

    Args:
        settings: settings of the evaluation.
        questions: ids of its questions.
    """
    if settings.record is None:
        return
    path = Path(settings.record)
    check_writable(path, "--record")
    replayed = settings.backbone.recording if kind_of(settings.backbone).replays else None
    if replayed and path.resolve() == Path(replayed).expanduser().resolve():
        raise ConfigurationError(
            f"--record {path}: this is the recording that is replayed. Name another file."
        )
    if path.exists() and not _is_own(path, settings, questions):
        raise ConfigurationError(
            f"--record {path}: the file exists. Only an evaluation in the same working folder, with the same settings "
            "and with at least the same questions, may replace it. Name another file, or remove this one."
        )


def _is_own(path: Path, settings: EvaluationSettings, questions: Collection[str]) -> bool:
    """Return whether a file is the recording of an earlier run with these settings and of no other questions."""
    try:
        sha256 = file_digest(path)
    except OSError:
        return False
    own = stored_settings({kind: getattr(settings, kind).model_dump(mode="json") for kind in KINDS})
    runs = Warehouse(Home(Path(settings.home)).warehouse).recorded(sha256)
    return any(stored.settings == own for stored in runs) and all(
        reply.question in questions for reply in read_recording(path).replies
    )
