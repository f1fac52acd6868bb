"""Corrections of a benchmark's gold in a file beside it (`benchmark.golds`): a second score, never part of the first.

    {"corrections": [
      {"question_id": "717", "action": "replace", "sql": "SELECT ...", "reason": "...", "source": "..."},
      {"question_id": "720", "action": "add", "sql": ["SELECT ...", "SELECT ..."], "reason": "...", "source": "..."},
      {"question_id": "723", "action": "withdraw", "reason": "...", "source": "..."},
      {"question_id": "730", "action": "undecided", "sql": "SELECT ..."}]}

"replace": the results of these SQLs are right, that of the gold no longer; "add": those of the gold and of these are;
"withdraw": the question is not counted; "undecided": nothing changes until a person writes one of the others.

A corrected key in BIRD's layout (a JSON list, JSON lines or CSV of objects with `question_id` and `SQL`) is read, too:
each SQL that is not the official gold's text replaces it. A question that the key leaves out keeps its gold.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from tasks.benchmarks.files.pairs import ID_NAMES, read_objects
from tasks.benchmarks.files.readers import read_json
from tasks.core.errors import DataError, did_you_mean
from tasks.core.wording import and_more, counted, storable
from tasks.settings.base import Settings
from tasks.settings.benchmark import QuestionId

Action = Literal["replace", "add", "withdraw", "undecided"]

SQL_NAMES = ("corrected_sql", "gold_sql", "sql", "query")
REASON_NAMES = ("reason", "correction", "comment")
"""What the columns of a corrected key may be called, in plain names; of several the first counts."""
UNDECIDED: Action = "undecided"
SHOWN_PROBLEMS = 30

_Text = Annotated[str, BeforeValidator(lambda text: storable(text) if isinstance(text, str) else text)]
_Texts = Annotated[
    tuple[_Text, ...],
    Field(strict=False),
    BeforeValidator(lambda sql: [sql] if isinstance(sql, str) else sql),
]


class Entry(Settings):
    """The correction of one question."""

    question_id: QuestionId
    """The question."""
    action: Action
    """What is done to its gold."""
    sql: _Texts = ()
    """SQL whose results are right, in the dialect of the databases."""
    reason: _Text = ""
    """What is wrong with the gold."""
    source: _Text = ""
    """Who says so: a person, a paper, an issue."""


@dataclass(frozen=True)
class Overlay:
    """The corrections of one file."""

    file: Path  # the file
    sha256: str  # its checksum
    # by question id, in file order; the undecided ones among them
    entries: Mapping[str, Entry] = field(repr=False)
    # everything that is wrong with the file, in sentences; entries that are named there are left out
    problems: tuple[str, ...] = ()

    @property
    def decided(self) -> dict[str, Entry]:
        """The entries that change a score."""
        return {name: entry for name, entry in self.entries.items() if entry.action != UNDECIDED}

    @property
    def undecided(self) -> int:
        """Number of entries that wait for a person."""
        return len(self.entries) - len(self.decided)

    def demand_valid(self, further: Collection[str] = ()) -> None:
        """Raise one error about everything that is wrong, with `further` problems that were found since it was read.

        Raises:
            DataError: there is a problem.
        """
        found = [*self.problems, *further]
        if not found:
            return
        lines = filter(None, (*found[:SHOWN_PROBLEMS], and_more(found, SHOWN_PROBLEMS)))
        raise DataError(
            f"The corrected golds of {self.file} cannot be used, {counted(len(found), 'problem')}:\n"
            + "\n".join(f"  {line}" for line in lines)
            + '\n"crosscheck verify-gold --overlay FILE" checks the file; without benchmark.golds there is only the '
            "official score."
        )


def read_overlay(file: Path, question_ids: Collection[str], gold: Mapping[str, str]) -> Overlay:
    """Read a file of corrections of a benchmark's questions, and note whatever is wrong with it.

    `gold` is the official gold SQL by question id, with which the entries of a corrected key are compared.

    Raises:
        DataError: the file cannot be read, or holds neither a list of corrections nor a key.
    """
    content = None if file.suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson") else read_json(file)
    listed = content.get("corrections") if isinstance(content, dict) else _of_key(file, gold)
    if not isinstance(listed, list) or content == []:
        raise DataError(
            f'{file} must hold an object with the key "corrections", a list of objects; or be a key in BIRD\'s layout: '
            "a JSON list, JSON lines or CSV with question_id and SQL."
        )
    entries: dict[str, Entry] = {}
    problems = [
        f'there is no key "{key}" beside "corrections" and "description"'
        for key in (content if isinstance(content, dict) else ())
        if key not in ("corrections", "description")
    ]
    for place, item in enumerate(listed):
        where = f"item {place} (from 0)"
        if isinstance(item, dict) and "question_id" in item:
            where += f", question {item['question_id']}"
        try:
            entry = Entry.model_validate(item)
        except ValidationError as error:
            problems += [f"{where}: {problem}" for problem in _in_words(error, item)]
            continue
        wrong = [f"{where}: {problem}" for problem in _problems(entry, question_ids)]
        if entry.question_id in entries:
            wrong.append(f"{where}: the question has a correction above; put all of its SQL into one")
        problems += wrong
        if not wrong:
            entries[entry.question_id] = entry
    return Overlay(file, hashlib.sha256(file.read_bytes()).hexdigest(), entries, tuple(problems))


def _of_key(file: Path, gold: Mapping[str, str]) -> list[dict[str, Any]]:
    """Read a corrected key as corrections: every SQL of a question whose text is not the official gold's."""
    sqls: dict[str, list[str]] = {}
    reasons: dict[str, str] = {}
    for row in read_objects(file):
        name = next((str(row.content[key]) for key in ID_NAMES if row.content.get(key) is not None), "")
        if not name:
            raise DataError(f'{row.place}: the key "question_id" is missing. Add it, or take the item out.')
        if row.content.get("action"):
            raise DataError(
                f'{row.place}: corrections with an "action" stand in an object: {{"corrections": [...]}}.'
            )
        sqls.setdefault(name, []).extend(row.texts(SQL_NAMES))
        reasons.setdefault(name, next((str(row.content[k]) for k in REASON_NAMES if row.content.get(k)), ""))
    return [
        {
            "question_id": name,
            "action": "replace",
            "sql": found,
            "reason": reasons[name] or f"differs from the gold in {file.name}",
            "source": file.name,
        }
        for name, found in sqls.items()
        if [_words(sql) for sql in found] != [_words(gold.get(name, ""))]
    ]


def _words(sql: str) -> str:
    return " ".join(sql.split()).rstrip("; ")


def _in_words(error: ValidationError, item: Any) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        key = str(problem["loc"][0]) if problem["loc"] else ""
        if problem["type"] == "extra_forbidden":
            yield f'there is no key "{key}". {did_you_mean(key, Entry.model_fields)}'
        elif problem["type"] == "missing":
            yield f'the key "{key}" is missing'
        elif not key:
            yield f"must be an object, not {type(item).__name__}"
        else:
            yield f'"{key}": {problem["msg"]}, not {problem["input"]!r}'


def _problems(entry: Entry, question_ids: Collection[str]) -> Iterator[str]:
    if entry.question_id not in question_ids:
        # All ids would be a list of hundreds.
        near = did_you_mean(entry.question_id, question_ids)
        yield "the benchmark has no such question" + (f". {near}" if near.startswith("Did") else "")
    if any(not sql.strip() for sql in entry.sql):
        yield '"sql" is empty'
    if entry.action in ("replace", "add") and not entry.sql:
        yield f'"{entry.action}" needs the key "sql"'
    if entry.action == "withdraw" and entry.sql:
        yield 'a question that is withdrawn has no "sql"'
    if entry.action != UNDECIDED:
        for name in ("reason", "source"):
            if not getattr(entry, name).strip():
                yield f'the key "{name}" is missing: say why, and who says so'
