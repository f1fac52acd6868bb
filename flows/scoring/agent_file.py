"""The file of the trajectories of a user's own agent. Each call adds to it, and keeps the answers that it has."""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from flows.runtime.control import Control
from flows.scoring.agent_database import AgentDatabase
from tasks.backbone.replies.sql_text import read_sql
from tasks.benchmarks.files.readers import parse_json
from tasks.benchmarks.trajectories import own_format
from tasks.benchmarks.trajectories.file import read_trajectories
from tasks.benchmarks.trajectories.imported import sql_in
from tasks.core.errors import ConfigurationError, DataError
from tasks.core.wording import counted


def line_of(head: dict[str, Any], answer: Any, database: AgentDatabase) -> dict[str, Any]:
    """Return the line of an answer: an object of the format as it is, else the SQL with the executed queries."""
    if isinstance(answer, dict):
        if not answer.keys() & {"turns", "messages"}:
            answer = {"turns": database.turns, **answer}
        line: dict[str, Any] = json.loads(json.dumps({**answer, **head}, default=_as_json))
    elif answer is None or isinstance(answer, str):
        sql = read_sql(answer) if answer and "```" in answer else answer
        submits = [{"sql": sql, "submitted": True}] if sql else []
        line = {**head, "turns": [*database.turns, *submits], "sql": sql}
    else:
        kind = type(answer).__name__
        raise TypeError(
            f"the agent returned {kind}: return the SQL as a text, None, or a dict with sql and turns or messages"
        )
    try:
        own_format.read("the agent's answer", line)
    except DataError as error:
        raise TypeError(str(error)) from None
    _add_errors(line.get("messages") or (), database.failed)
    return line


def _add_errors(messages: Sequence[dict[str, Any]], failed: Mapping[str, bool]) -> None:
    """Add to the tool messages of an agent whether their SQL failed, which the chat protocol does not say.

    Args:
        messages: valid ones.
        failed: whether each executed SQL failed.
    """
    by_id: dict[Any, bool | None] = {}
    for each in messages:
        for call in each.get("tool_calls") or ():
            by_id[call.get("id")] = failed.get(sql_in(call["function"].get("arguments")) or "")
        error = by_id.get(each.get("tool_call_id")) if each["role"] == "tool" else None
        if error is not None:
            each.setdefault("error", error)


def _as_json(value: Any) -> Any:
    """Return a message of a client's library as plain JSON, as its model dumps itself."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"the agent returned a {type(value).__name__} within its answer, which JSON cannot write")


def answered_in(file: Path, ids: Iterable[str], control: Control) -> frozenset[str]:
    """Return the ids of questions that a file answers; a line that a killed process has not finished is removed.

    Raises:
        CrosscheckError: the file is of another kind; it is left as it is.
    """
    content = file.read_bytes()
    last = content.rpartition(b"\n")[2]
    if last and not last.startswith(b"{"):
        raise _not_ours(file)
    if _is_json(last):  # a complete line, of an editor that ends the last one without a line break
        with file.open("ab") as ended:
            ended.write(b"\n")
    elif last:
        os.truncate(file, len(content) - len(last))
    if not file.stat().st_size:
        return frozenset()
    found = read_trajectories(file)
    if found.format != "trajectories":
        raise _not_ours(file)
    answered = {each.question_id for each in found.trajectories if not each.failure}
    known = answered.intersection(ids)
    if known:
        control.progress.note(
            f"Kept from an earlier call: {counted(len(known), 'answer')} in {file}. Delete that file to run the agent "
            "on every question again."
        )
    return frozenset(known)


def _is_json(line: bytes) -> bool:
    try:
        parse_json(line.decode())
    except ValueError:
        return False
    return True


def _not_ours(file: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{file} is not a file of JSON lines with trajectories, so no answer is added to it. Name another file."
    )


@contextmanager
def opened_file(file: Path) -> Iterator[TextIO]:
    """Open a file to append to, for this process alone."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = file.exists() and os.path.samestat(file.stat(), os.fstat(opened.fileno()))
            except OSError:
                ours = False
            if not ours:  # locked by another call, or renamed by one that has just ended
                raise ConfigurationError(
                    f"Another call is writing {file}. Wait until it has ended, or give this one another name."
                )
            yield opened
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}.") from None


def file_name(name: str) -> str:
    """Return a name as a part of a file's name; names that differ stay different."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-")
    return plain if plain == name else f"{plain or 'agent'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
