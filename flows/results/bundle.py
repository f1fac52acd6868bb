"""Export of a run as a bundle."""

from dataclasses import dataclass
from pathlib import Path

from flows.questions.recording import recorded_replies
from flows.runtime.folders import Folders
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.recordings.file import RecordedReply, ReplyPosition
from tasks.core.errors import ConfigurationError
from tasks.settings.home import find_replies
from tasks.tracking.bundle.anonymous import Anonymizer
from tasks.tracking.bundle.archive import write_archive
from tasks.tracking.bundle.contents import files_of
from tasks.tracking.evaluation import FINISHED
from tasks.tracking.parameters import secrets_of
from tasks.tracking.warehouse.stored import StoredRun


@dataclass(frozen=True)
class Exported:
    """A bundle that was written."""

    run_id: str
    file: str
    sha256: str  # of the manifest, which has the digest of every file
    questions: int
    replies: int | None  # replies in it; None where they were refused
    missing_replies: int  # calls of the run whose replies are not stored here; 0 where they were refused


def export_bundle(stored: StoredRun, target: Path, folders: Folders, *, replies: bool) -> Exported:
    """Write the bundle of a run that has ended.

    Raises:
        ConfigurationError: the run has not ended, or the file cannot be written.
        CrosscheckError: the reply cache cannot be read.
    """
    run = stored.run
    if stored.status not in FINISHED:
        raise ConfigurationError(
            f"The run {run.run_id} is {stored.status}, so it has no figures to hand over. The command that began it "
            "completes it."
        )
    found, lost = _replies(stored, folders) if replies else (None, [])
    secrets = secrets_of(run.settings.get("backbone") or {})
    hidden = Anonymizer.of_this_machine((folders.data, folders.home.path), secrets)
    digest = write_archive(target, files_of(stored, hidden, found, len(lost)))
    count = None if found is None else len(found)
    return Exported(run.run_id, str(target), digest, len(stored.rows), count, len(lost))


def _replies(stored: StoredRun, folders: Folders) -> tuple[list[RecordedReply], list[ReplyPosition]]:
    """Return the replies that the reply cache has, and the places of the others."""
    lost: list[ReplyPosition] = []
    outcomes = {row.question.id: row.outcome for row in stored.rows}
    with open_reply_cache(find_replies(folders.home)) as cache:
        found = recorded_replies([row.question for row in stored.rows], outcomes, cache, lost)
        return list(found), lost
