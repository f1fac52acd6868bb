"""Recordings of evaluations: every reply that the questions met, restored ones included."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.factory import kind_of
from tasks.backbone.protocol import Backbone, digest_of_canonical
from tasks.backbone.recordings.file import Place, RecordedReply, check_writable, write_recording
from tasks.backbone.recordings.listening import Heard, ListeningBackbone
from tasks.errors import ConfigurationError
from tasks.records import Call, Outcome, Question
from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True)
class Recorder:
    """Writes what an evaluation's backbone said, once every question is through.

    Replies that were asked for in this run come from the backbone that is listened to; those of restored stages
    come from the reply cache. A backbone that is not cached there is asked anew for all of them, since that costs
    nothing: then `restoring` is False.

    Attributes:
        path: the recording.
        backbone: ask this one.
        cache: bought replies.
        restoring: whether persisted stage results may be restored.
    """

    path: Path
    backbone: ListeningBackbone
    cache: ReplyCache
    restoring: bool

    def write(self, questions: Sequence[Question], outcomes: Mapping[str, Outcome]) -> str:
        """Write the recording and return what became of it, in a sentence.

        Raises:
            CrosscheckError: the file cannot be written, or the reply cache cannot be read.
        """
        lost: list[Place] = []
        asked = [question for question in questions if question.id in outcomes]
        count = write_recording(self.path, self._replies(asked, outcomes, lost))
        told = f"{count:,} replies to {len(asked):,} questions are recorded in {self.path}."
        if lost:
            told += (
                f" {len(lost):,} are missing, the first at {lost[0]}: their stages were restored, and the reply "
                "cache no longer has them."
            )
        return told

    def _replies(
        self, questions: Sequence[Question], outcomes: Mapping[str, Outcome], lost: list[Place]
    ) -> Iterator[RecordedReply]:
        for question in questions:
            for record in outcomes[question.id].stages:
                # A stage that was repeated after an error has met its first replies again.
                for call in {call.round: call for call in record.calls}.values():
                    place = Place(question.id, record.label, call.round)
                    heard = self._heard(place, call)
                    if heard is None:
                        lost.append(place)
                        continue
                    yield RecordedReply(
                        question=question.id,
                        database=question.database_id,
                        stage=record.label,
                        round=call.round,
                        reply=heard.text,
                        request=heard.request,
                        model=call.model,
                        usage=call.usage,
                        truncated=heard.truncated,
                    )

    def _heard(self, place: Place, call: Call) -> Heard | None:
        if heard := self.backbone.heard(place, call.request):
            return heard
        entry = self.cache.entry(call.request)
        if entry is None:
            return None
        return Heard(digest_of_canonical(entry.request), entry.text, entry.finish == "length")


def check_record(settings: EvaluationSettings) -> None:
    """Find what would keep the recording from being written, before anything is paid.

    Raises:
        ConfigurationError: it cannot be written there, or would replace the one that is replayed.
    """
    if settings.record is None:
        return
    path = Path(settings.record)
    check_writable(path)
    replayed = settings.backbone.recording if kind_of(settings.backbone).replays else None
    if replayed and path.resolve() == Path(replayed).expanduser().resolve():
        raise ConfigurationError(
            f"--record {path}: this is the recording that is replayed. Name another file."
        )


def open_recorder(settings: EvaluationSettings, backbone: Backbone, cache: ReplyCache) -> Recorder | None:
    """Return who records the evaluation; None where nobody asked for it."""
    if settings.record is None:
        return None
    bought = kind_of(settings.backbone).paid
    return Recorder(Path(settings.record), ListeningBackbone(backbone), cache, restoring=bought)
