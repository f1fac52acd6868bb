"""Conversion of outputs of RSL-SQL's released code for BIRD dev, such as its authors' with GPT-4o, to a recording.

The release has no replies, only their parsed content, so the recording holds the shortest reply with that content.
Item or line N (from 0) is of the question with id N.

What each stage is given:

- `forward_link`, `preliminary_sql`, the three `augmentation_*`, `augmented_sql` and `binary_selection`: one reply
  each, for every question.
- `self_correction`: SQL4 as the reply of round 0, and only where it differs from SQL3. Where both are the same, the
  authors' correction did not run or changed nothing; which of the two is unknown, and so is the reply. If SQL3 or
  SQL4 fails in our executor but not in theirs, the reply is missing and the question fails.

No tokens are recorded: the release has none.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.backbone.recordings.file import RecordedReply
from tasks.benchmarks.files.readers import read_json, read_text
from tasks.core.errors import DataError
from tasks.core.records import Question

FOLDER = "recordings/rsl-sql-gpt-4o-bird-dev"
"""Where it is, below the data location."""
MODEL = "gpt-4o"
SQLS = ("sql1", "sql2", "sql3", "sql4")
PUBLISHED = {
    "forward_link.json": ("LLM.json",),
    "sql1.txt": ("preliminary_sql.txt", "step_1_sql.txt"),
    "sql2.txt": ("step_2_information_augmentation.txt", "step_2_sql.txt"),
    "sql3.txt": ("step_3_binary.txt", "step_3_sql.txt"),
    "sql4.txt": ("final_sql.txt", "step_4_sql.txt"),
}
"""Names that the files have in RSL-SQL's repository, there in folders step1 to step4."""


@dataclass(frozen=True)
class Release:
    """The released outputs, by position."""

    folder: Path  # where they are
    forward_link: Sequence[Mapping[str, Any]]  # the model's tables and columns, before any matching of names
    augmentation: Sequence[Mapping[str, Any]]  # tables, columns, sql_keywords and conditions
    sql: Mapping[str, Sequence[str]]  # the statements after each step, under "sql1" to "sql4"

    def verdicts(self, name: str) -> tuple[bool, ...]:
        """Return a vector of 0 and 1 per question, e.g. "correct/sql1" or "strict_recall/forward".

        Raises:
            DataError: there is no such vector, or it has another length.
        """
        path = self.folder / f"{name}.json"
        vector = _json_list(path)
        _demand_length(path, vector, len(self.forward_link))
        return tuple(bool(one) for one in vector)


def read_release(folder: Path) -> Release:
    """Read the released outputs.

    Raises:
        DataError: a file is missing or malformed, or they differ in length.
    """
    forward_link = _json_list(_find(folder, "forward_link.json"), "tables", "columns")
    file = _find(folder, "augmentation.json")
    augmentation = _json_list(file, "tables", "columns", "sql_keywords", "conditions")
    _demand_length(file, augmentation, len(forward_link))
    files = {name: _find(folder, f"{name}.txt") for name in SQLS}
    sql = {name: _lines(file) for name, file in files.items()}
    for name, lines in sql.items():
        _demand_length(files[name], lines, len(forward_link))
    return Release(folder, forward_link, augmentation, sql)


def recorded_replies(
    release: Release, questions: Sequence[Question], model: str = MODEL
) -> Iterator[RecordedReply]:
    """Return the release as a recording of the pipeline `rsl-sql`.

    The questions are BIRD dev, all of it: a question's id is its position in the release.

    Raises:
        DataError: a question has an id that the release does not know.
    """
    for question in questions:
        if not (
            question.id.isascii() and question.id.isdigit() and int(question.id) < len(release.forward_link)
        ):
            raise DataError(
                f"{release.folder} has the questions 0 to {len(release.forward_link) - 1}, not {question.id}. "
                "It is made for BIRD dev, revision 20240627."
            )
        for stage, reply in _replies(release, int(question.id)).items():
            yield RecordedReply(
                question=question.id,
                database=question.database_id,
                stage=stage,
                round=0,
                reply=json.dumps(reply, ensure_ascii=False),
                model=model,
            )


def _find(folder: Path, name: str) -> Path:
    """Return a file of the release by any of its names, in the folder or in one of its folders."""
    names = (name, *PUBLISHED.get(name, ()))
    found = [path for each in names for path in (folder / each, *folder.glob(f"*/{each}")) if path.is_file()]
    if len(found) > 1:
        here = " and ".join(str(path.relative_to(folder)) for path in found)
        raise DataError(f"{folder} holds {here}: keep one of them.")
    return found[0] if found else folder / name


def _replies(release: Release, index: int) -> dict[str, Mapping[str, Any]]:
    linked, augmentation = release.forward_link[index], release.augmentation[index]
    sql1, sql2, sql3, sql4 = (release.sql[name][index] for name in SQLS)
    replies: dict[str, Mapping[str, Any]] = {
        "forward_link": {"tables": linked["tables"], "columns": linked["columns"]},
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


def _json_list(path: Path, *keys: str) -> list[Any]:
    _demand_file(path)
    content = read_json(path)
    if not isinstance(content, list):
        raise DataError(f"{path} must hold a list, with one item per question.")
    for index, item in enumerate(content):
        if keys and not (isinstance(item, dict) and all(isinstance(item.get(key), list) for key in keys)):
            raise DataError(f"{path}: item {index} must hold the lists {', '.join(keys)}.")
    return content


def _lines(path: Path) -> list[str]:
    _demand_file(path)
    return read_text(path).removesuffix("\n").split("\n")


def _demand_file(path: Path) -> None:
    if not path.exists():
        raise DataError(
            f"There is no {path}. The authors' outputs of RSL-SQL (GPT-4o, BIRD dev) are looked for in {FOLDER} of the "
            "folder that --data names; --outputs FOLDER and --model NAME name others."
        )


def _demand_length(path: Path, items: Sequence[Any], length: int) -> None:
    if len(items) != length:
        raise DataError(
            f"{path} has {len(items):,} items, and forward_link.json {length:,}: they do not belong together."
        )
