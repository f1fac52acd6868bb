"""The outputs of RSL-SQL on BIRD dev with GPT-4o that its authors released, and a recording made of them.

Item or line N (from 0) is of the question with id N. The release has no replies, only their parsed content, so the
recording has the shortest reply with that content:

- `forward_link`, `preliminary_sql`, the three `augmentation_*`, `augmented_sql` and `binary_selection`: one reply
  each, for every question.
- `self_correction`: SQL4 as the reply of round 0, and only where it differs from SQL3. Where both are the same, the
  authors' correction did not run or changed nothing. If SQL3 or SQL4 fails here but not in the authors' run, the reply
  is missing and the question fails.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.recordings import RecordedBackbone, RecordedReply, Recording
from tasks.core.records import Question

FOLDER = "recordings/rsl-sql-gpt-4o-bird-dev"
"""Where it is in the shared data."""
SQLS = ("sql1", "sql2", "sql3", "sql4")


@dataclass(frozen=True)
class Release:
    """The released outputs, by position."""

    folder: Path  # where they are
    forward_link: Sequence[Mapping[str, Any]]  # the model's tables and columns, before any matching of names
    augmentation: Sequence[Mapping[str, Any]]  # tables, columns, sql_keywords and conditions
    sql: Mapping[str, Sequence[str]]  # the statements after each step

    def verdicts(self, name: str) -> list[bool]:
        """Return a vector of verdicts per question, e.g. "correct/sql1" or "strict_recall/forward"."""
        return [bool(verdict) for verdict in json.loads((self.folder / f"{name}.json").read_text())]


def read_release(shared_data: Path) -> Release:
    """Read the released outputs."""
    folder = shared_data / FOLDER
    forward_link, augmentation = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("forward_link", "augmentation")
    )
    sql = {name: (folder / f"{name}.txt").read_text().removesuffix("\n").split("\n") for name in SQLS}
    return Release(folder, forward_link, augmentation, sql)


def recorded_replies(release: Release, questions: Sequence[Question]) -> Iterator[RecordedReply]:
    """Yield the replies to questions of BIRD dev, whose ids are positions in the release."""
    for question in questions:
        for stage, reply in _replies(release, int(question.id)).items():
            text = json.dumps(reply, ensure_ascii=False)
            yield RecordedReply(question.id, question.database_id, stage, 0, text, model="gpt-4o")


def replay(release: Release, questions: Sequence[Question]) -> MeteredBackbone:
    """Return a backbone that replays the replies to these questions."""
    replies = tuple(recorded_replies(release, questions))
    return MeteredBackbone(RecordedBackbone(Recording(release.folder, "", replies)))


def _replies(release: Release, index: int) -> dict[str, Mapping[str, Any]]:
    link, augmentation = release.forward_link[index], release.augmentation[index]
    sql1, sql2, sql3, sql4 = (release.sql[name][index] for name in SQLS)
    replies: dict[str, Mapping[str, Any]] = {
        "forward_link": {"tables": link["tables"], "columns": link["columns"]},
        "preliminary_sql": {"sql": sql1},
        "augmentation_elements": {"tables": augmentation["tables"], "columns": augmentation["columns"]},
        "augmentation_keywords": {"sql_keywords": augmentation["sql_keywords"]},
        "augmentation_conditions": {"conditions": augmentation["conditions"]},
        "augmented_sql": {"sql": sql2},
        "binary_selection": {"sql": sql3},
    }
    if sql4 != sql3:
        replies["self_correction"] = {"sql": sql4}
    return replies
