"""Files of trajectories in the formats that are known; the format follows from the content."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.benchmarks.files.readers import parse_json
from tasks.benchmarks.predictions.formats import Entry, Format, PredictionFile
from tasks.benchmarks.trajectories import atif, livesqlbench, opentelemetry, own_format
from tasks.benchmarks.trajectories.imported import Trajectory
from tasks.core.errors import DataError

FORMATS: Mapping[Format, str] = {
    "trajectories": "JSON lines with question_id and turns, or messages (docs/agents.md)",
    "opentelemetry": "OpenTelemetry spans of the GenAI conventions as JSON, of an OTLP exporter or of the Python SDK",
    "atif": "ATIF documents, or a folder of Harbor's trials",
    "livesqlbench": "results of LiveSQLBench-Agent",
}
MOST_BYTES = 2**30
"""Size of a file, and of all files of a folder, from which on it is not read."""


@dataclass(frozen=True, slots=True)
class TrajectoryFile:
    """A file of trajectories."""

    path: Path
    format: Format
    sha256: str
    trajectories: tuple[Trajectory, ...] = field(repr=False)

    @property
    def predictions(self) -> PredictionFile:
        """The answers alone, which are paired with questions as those of any file are."""
        entries = (
            Entry(each.place, each.question_id, each.answer, each.database_id) for each in self.trajectories
        )
        return PredictionFile(self.path, self.format, self.sha256, tuple(entries))


@dataclass(frozen=True, slots=True)
class _Object:
    """An object of a file."""

    place: str
    content: dict[str, Any]
    task: str | None = None  # name of Harbor's task; None where there is none


def read_trajectories(path: Path) -> TrajectoryFile:
    """Read a file of trajectories, or a folder of ATIF documents.

    Raises:
        DataError: it cannot be read, is too large, has none of the formats, or is malformed; names file and line.
    """
    try:
        if path.is_dir():
            objects, digest = _folder(path)
        else:
            content = _bytes(path)
            objects, digest = list(_objects(path, content)), hashlib.sha256(content).hexdigest()
    except OSError as error:
        raise DataError(f"{error.filename or path} cannot be read: {error.strerror}.") from None
    if not objects:
        raise DataError(f"{path} holds no trajectory. {_valid()}")
    kind = _format(objects[0])
    return TrajectoryFile(path, kind, digest, tuple(_read(kind, objects, path)))


def _read(kind: Format, objects: list[_Object], path: Path) -> Iterator[Trajectory]:
    if kind == "opentelemetry":
        yield from opentelemetry.read(str(path), [(each.place, each.content) for each in objects])
        return
    for each in objects:
        if kind == "atif":
            yield atif.read(each.place, each.content, each.task)
        if kind == "livesqlbench":
            yield from (livesqlbench.read(*one) for one in livesqlbench.results(each.place, each.content))
    if kind == "trajectories":
        yield from _last([own_format.read(each.place, each.content) for each in objects])


def _last(found: list[Trajectory]) -> Iterator[Trajectory]:
    """Yield trajectories, of a question that failed at first and was asked again the last one."""
    by_id: dict[str, list[Trajectory]] = {}
    for each in found:
        earlier = by_id.setdefault(each.question_id, [])
        by_id[each.question_id] = [*(one for one in earlier if not one.failure), each]
    for trajectories in by_id.values():
        yield from trajectories


def _format(first: _Object) -> Format:
    content = first.content
    if str(content.get("schema_version", "")).startswith(atif.SCHEMA):
        return "atif"
    if opentelemetry.is_span(content):
        return "opentelemetry"
    if livesqlbench.is_result(content):
        return "livesqlbench"
    if "turns" in content or "messages" in content:
        return "trajectories"
    named = ", ".join(map(str, content)) or "nothing"
    raise DataError(
        f"{first.place}: the object has {named[:200]}, but neither turns nor messages. {_valid()}"
    )


def _objects(path: Path, content: bytes) -> Iterator[_Object]:
    """Yield the objects of a file of JSON lines, of a JSON list, or the one of a JSON document."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {place}: not UTF-8. Save the file as UTF-8.") from None
    lines = {number: line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    if not lines:
        raise DataError(f"{path} is empty. {_valid()}")
    if len(lines) > 1 and next(iter(lines.values())).strip() in ("{", "["):
        lines = {1: text}  # a document of several lines
    for number, line in lines.items():
        try:
            found = parse_json(line)
        except json.JSONDecodeError as error:
            at = f"line {number + error.lineno - 1}"
            raise DataError(
                f"{path}, {at}: not JSON ({error.msg} in column {error.colno}). {_valid()}"
            ) from None
        listed = isinstance(found, list)
        for item, each in enumerate(found if listed else [found]):
            where = f"{path}, line {number}" + (f", item {item} (from 0)" if listed else "")
            if not isinstance(each, dict):
                raise DataError(f"{where}: must be an object, not {type(each).__name__}. {_valid()}")
            yield _Object(where, each)


def _folder(folder: Path) -> tuple[list[_Object], str]:
    """Read the trajectories of the trials of Harbor's job: <trial>/agent/trajectory.json beside <trial>/result.json."""
    files = sorted(folder.rglob("trajectory.json")) or sorted(folder.glob("*.json"))
    if sum(file.stat().st_size for file in files) > MOST_BYTES:
        raise DataError(f"{folder} is larger than {MOST_BYTES // 2**20:,} MiB. Score it in parts.")
    contents = [_bytes(file) for file in files]
    objects = [
        _Object(each.place, each.content, _task(file))
        for file, content in zip(files, contents, strict=True)
        for each in _objects(file, content)
    ]
    return objects, hashlib.sha256(b"\0".join(contents)).hexdigest()


def _task(file: Path) -> str | None:
    """Return the name of the task of Harbor's trial, without the name of its data set."""
    result = file.parent.parent / "result.json"
    if not result.is_file():
        return None
    try:
        content = parse_json(_bytes(result).decode("utf-8-sig"))
    except ValueError:
        raise DataError(f"{result} is not JSON in UTF-8.") from None
    name = content.get("task_name") if isinstance(content, dict) else None
    return str(name).rpartition("/")[2] if name else None


def _bytes(path: Path) -> bytes:
    if (size := path.stat().st_size) > MOST_BYTES:
        raise DataError(
            f"{path} has {size / 2**20:,.0f} MiB, and at most {MOST_BYTES // 2**20:,} are read. Score it in parts."
        )
    return path.read_bytes()


def _valid() -> str:
    return f"Formats: {'; '.join(FORMATS.values())}."
