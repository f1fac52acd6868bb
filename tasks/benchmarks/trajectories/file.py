"""Files of trajectories in the formats that are known; the format follows from the content."""

import json
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from tasks.benchmarks.files.readers import files_digest, parse_json, read_json
from tasks.benchmarks.predictions.formats import Entry, Format, PredictionFile
from tasks.benchmarks.trajectories import atif, livesqlbench, opentelemetry, own_format, spider_agent
from tasks.benchmarks.trajectories.imported import Trajectory
from tasks.core.errors import DataError

FORMATS: Mapping[Format, str] = {
    "trajectories": "JSON lines with question_id and turns, or messages (docs/agents.md)",
    "opentelemetry": "OpenTelemetry spans of the GenAI conventions as JSON, of an OTLP exporter or of the Python SDK",
    "atif": "ATIF documents, or a folder of Harbor's trials",
    "livesqlbench": "results of LiveSQLBench-Agent",
    "spider_agent": "results of Spider-Agent-TC, a file or their folder",
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
    file: Path


def read_trajectories(path: Path) -> TrajectoryFile:
    """Read a file of trajectories, or a folder of them.

    Raises:
        DataError: it cannot be read, is too large, has none of the formats, or is malformed; names file and line.
    """
    try:
        files = _files(path)
        objects = chain.from_iterable(map(_objects, files))
        if (first := next(objects, None)) is None:
            raise DataError(f"{path} holds no trajectory. {_valid()}")
        kind = _format(first)
        found = tuple(_read(kind, chain([first], objects), path))
        return TrajectoryFile(path, kind, files_digest(files), found)
    except OSError as error:
        raise DataError(f"{error.filename or path} cannot be read: {error.strerror}.") from None


def _files(path: Path) -> list[Path]:
    """Return the file, or those of a folder: agent/trajectory.json of the trials of Harbor's job, else *.json."""
    inside = sorted(path.rglob("trajectory.json")) or sorted(path.glob("*.json"))
    files = inside if path.is_dir() else [path]
    if (size := sum(file.stat().st_size for file in files)) > MOST_BYTES:
        most = f"{MOST_BYTES // 2**20:,}"
        raise DataError(
            f"{path} has {size / 2**20:,.0f} MiB, and at most {most} are read. Score it in parts."
        )
    return files


def _read(kind: Format, objects: Iterator[_Object], path: Path) -> Iterable[Trajectory]:
    match kind:
        case "opentelemetry":
            return opentelemetry.read(str(path), ((each.place, each.content) for each in objects))
        case "atif":
            return (atif.read(each.place, each.content, _task(each.file)) for each in objects)
        case "livesqlbench":
            found = (livesqlbench.results(each.place, each.content) for each in objects)
            return (livesqlbench.read(*one) for one in chain.from_iterable(found))
        case "spider_agent":
            return spider_agent.read((each.place, each.content) for each in objects)
        case _:
            return _last(own_format.read(each.place, each.content) for each in objects)


def _last(found: Iterable[Trajectory]) -> Iterator[Trajectory]:
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
    if spider_agent.is_rollout(content):
        return "spider_agent"
    if "turns" in content or "messages" in content:
        return "trajectories"
    named = ", ".join(map(str, content)) or "nothing"
    raise DataError(
        f"{first.place}: the object has {named[:200]}, but neither turns nor messages. {_valid()}"
    )


def _objects(path: Path) -> Iterator[_Object]:
    """Yield the objects of a file of JSON lines, one after the other, or those of a JSON document of several lines.

    It is such a document if its first line cannot be the end of one.
    """
    with path.open("rb") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        number, first = next(lines, (1, b""))
        first = first.removeprefix(BOM_UTF8)
        if not first.strip():
            raise DataError(f"{path} is empty. {_valid()}")
        begins = first.strip()
        if begins.endswith((b"{", b"[", b",", b":")) or (begins[:1] == b"[" and begins[-1:] != b"]"):
            yield from _parsed(path, number, b"".join((first, *file)))
            return
        for place, line in chain([(number, first)], lines):
            yield from _parsed(path, place, line)


def _parsed(path: Path, number: int, content: bytes) -> Iterator[_Object]:
    """Yield the object of JSON text that begins at a line of a file, or those of a list."""
    try:
        found = parse_json(content.decode())
    except UnicodeDecodeError as error:
        place = number + content[: error.start].count(b"\n")
        raise DataError(f"{path}, line {place}: not UTF-8. Save the file as UTF-8.") from None
    except json.JSONDecodeError as error:
        place = number + error.lineno - 1
        raise DataError(
            f"{path}, line {place}: not JSON ({error.msg} in column {error.colno}). {_valid()}"
        ) from None
    listed = isinstance(found, list)
    for item, each in enumerate(found if listed else [found]):
        where = f"{path}, line {number}" + (f", item {item} (from 0)" if listed else "")
        if not isinstance(each, dict):
            raise DataError(f"{where}: must be an object, not {type(each).__name__}. {_valid()}")
        yield _Object(where, each, path)


def _task(file: Path) -> str | None:
    """Return the name of the task of Harbor's trial, without the name of its data set; None without a trial."""
    result = file.parent.parent / "result.json"
    content = read_json(result) if file.name == "trajectory.json" and result.is_file() else None
    name = content.get("task_name") if isinstance(content, dict) else None
    return str(name).rpartition("/")[2] if name else None


def _valid() -> str:
    return f"Formats: {'; '.join(FORMATS.values())}."
