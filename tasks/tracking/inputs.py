"""A digest of everything that decides the result of an evaluation, to recognise one that was made before."""

import hashlib
import json
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tasks.settings.home import find_conf

ROOT = Path(__file__).resolve().parents[2]
_SEPARATORS = (",", ":")


def inputs_digest(parts: Mapping[str, Any]) -> str:
    """Return the sha256 of values, this release's files, the configuration, Python and the installed dependencies.

    Args:
        parts: settings, questions, golds and the like: plain data, records, sets and paths.
    """
    content = {**parts, "code": _code(find_conf()), "versions": _versions()}
    text = json.dumps(content, default=_plain, ensure_ascii=False, sort_keys=True, separators=_SEPARATORS)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    return repr(value)


@cache
def _code(conf: Path) -> str:
    """Return the sha256 of the source, templates and configuration that are in use, changed ones included."""
    found = hashlib.sha256()
    for file in sorted(_files(conf)):
        found.update(f"{file}\0".encode())
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def _files(conf: Path) -> Iterator[Path]:
    for folder in ("tasks", "flows"):
        found = (path for path in (ROOT / folder).rglob("*") if path.suffix != ".pyc" and path.is_file())
        yield from found
    for folder in ("backbones", "benchmarks", "pipelines", "prompts"):
        yield from (path for path in (conf / folder).glob("*") if path.is_file())


@cache
def _versions() -> tuple[str, ...]:
    """Return the versions of Python, SQLite and the packages that Crosscheck requires."""
    try:
        required = metadata.requires("crosscheck-sql") or []
    except metadata.PackageNotFoundError:
        required = []
    found = [sys.version, sqlite3.sqlite_version]
    for each in required:
        name = "".join(c if c.isalnum() or c in "-_." else " " for c in each).split()[0]
        try:
            found.append(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:  # of an extra that is not installed
            found.append(f"{name} missing")
    return tuple(found)
