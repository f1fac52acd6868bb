"""Answer keys that are a file of corrections: what a person changes of single golds.

    {"corrections": [
      {"question_id": "717", "action": "replace", "sql": "SELECT ...", "reason": "...", "source": "..."},
      {"question_id": "720", "action": "add", "sql": ["SELECT ...", "SELECT ..."], "reason": "...", "source": "..."},
      {"question_id": "723", "action": "withdraw", "reason": "...", "source": "..."},
      {"question_id": "730", "action": "undecided", "sql": "SELECT ..."}]}

"replace": the results of these SQLs are right, that of the gold no longer; "add": those of the gold and of these are;
"withdraw": the question is not counted; "undecided": nothing changes until a person writes one of the others. With
"question" or "evidence" the key has another text for the question. Other questions keep their gold.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.benchmarks.files.readers import files_digest
from tasks.benchmarks.keys.key import UNDECIDED, AnswerKey, Entry, Official
from tasks.core.errors import did_you_mean

KEYS = ("corrections", "description", "agreement")
"""Keys beside the list of corrections that a file may have."""


def read_corrections(name: str, file: Path, content: Mapping[str, Any], official: Official) -> AnswerKey:
    """Read the content of a file of corrections, and note whatever is wrong with it.

    Raises:
        DataError: the file cannot be read.
    """
    listed: Sequence[Any] = content["corrections"]
    entries: dict[str, Entry] = {}
    problems = [f'there is no key "{key}" beside "corrections"' for key in content if key not in KEYS]
    for place, item in enumerate(listed):
        where = f"item {place} (from 0)"
        if isinstance(item, dict) and "question_id" in item:
            where += f", question {item['question_id']}"
        try:
            entry = Entry.model_validate(item)
        except ValidationError as error:
            problems += [f"{where}: {problem}" for problem in _in_words(error, item)]
            continue
        wrong = [f"{where}: {problem}" for problem in _problems(entry, official)]
        if entry.question_id in entries:
            wrong.append(f"{where}: the question has a correction above; put all of its SQL into one")
        problems += wrong
        if not wrong:
            entries[entry.question_id] = entry
    return AnswerKey(name, file, files_digest([file]), entries, problems=tuple(problems))


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


def _problems(entry: Entry, official: Official) -> Iterator[str]:
    if entry.question_id not in official.questions:
        # All ids would be a list of hundreds.
        near = did_you_mean(entry.question_id, official.questions)
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
