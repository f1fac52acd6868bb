"""Builds the demo benchmark on first use, whole or not at all."""

import hashlib
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tasks.benchmarks.demo.bird_files import write_database, write_json, write_questions
from tasks.benchmarks.demo.source_files import database_folders, read_database

MANIFEST = "built.json"
"""Written last: the stamp, and the size of every file."""


def build_demo(target: Path, *, sources: Path, progress: Callable[[str], None] | None = None) -> Path:
    """Build the demo benchmark under `target`, unless what stands there is whole and current; return `target`.

    It is built in a folder beside the target and then renamed, so that half of it is never seen; of two processes
    that build at once, one's work is thrown away. The content is the same on every machine.

    Args:
        target: folder of the benchmark; holds dev.json, train.json, dev_tables.json and dev_databases/.
        sources: the folder `benchmarks/demo` of the configuration.
        progress: called with a line of text for every database.

    Raises:
        DataError: a source is missing or damaged, or the sources contradict each other.
    """
    stamp = demo_stamp(sources)
    if _is_current(target, stamp):
        return target
    say = progress or (lambda message: None)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as aside:
        built = Path(aside) / "new"
        built.mkdir()
        databases = [read_database(folder) for folder in database_folders(sources)]
        entries = []
        for number, database in enumerate(databases, 1):
            say(f"Building the demo benchmark: {database.name} ({number} of {len(databases)})")
            entries.append(write_database(database, built))
        write_json(entries, built / "dev_tables.json")
        write_questions(databases, built)
        sizes = {path.relative_to(built).as_posix(): path.stat().st_size for path in _files(built)}
        write_json({"stamp": stamp, "sizes": sizes}, built / MANIFEST)
        _publish(built, target, stamp, Path(aside))
    return target


def demo_stamp(sources: Path) -> str:
    """Return the sha256 of everything that the demo benchmark's content follows from."""
    own = Path(__file__).parent
    parts = [(path.relative_to(own), path) for path in own.glob("*.py")]
    for folder in database_folders(sources):
        parts += [(path.relative_to(sources), path) for path in _files(folder)]
    digest = hashlib.sha256()
    for name, path in sorted(parts):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name.as_posix()} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _publish(built: Path, target: Path, stamp: str, aside: Path) -> None:
    """Rename `built` to `target`, moving what stands there out of the way, unless another was faster."""
    for attempt in range(10):
        try:
            built.rename(target)
            return
        except OSError:
            if _is_current(target, stamp):
                return
            if attempt == 9:
                raise
        with suppress(FileNotFoundError):  # another process moved it first
            target.rename(aside / f"old-{attempt}")


def _is_current(folder: Path, stamp: str) -> bool:
    """Whether `folder` was built from this stamp's sources and no file of it was lost or cut since."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest["stamp"] == stamp and all(
            (folder / name).stat().st_size == size for name, size in manifest["sizes"].items()
        )
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, KeyError, TypeError):
        return False
