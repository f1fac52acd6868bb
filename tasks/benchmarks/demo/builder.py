"""Builds the demo benchmark on first use, whole or not at all."""

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from tasks.benchmarks.demo.layout import write_database, write_questions, write_tables
from tasks.benchmarks.demo.sources import database_folders, read_database

BUILDER_VERSION = 1
"""Part of the stamp; raise it to have every copy built anew."""

MANIFEST = "built.json"
"""Written last: the stamp, and the size of every file."""


def build_demo(target: Path, *, sources: Path, progress: Callable[[str], None] | None = None) -> Path:
    """Build the demo benchmark under `target`, unless what stands there is whole and current.

    It is built in a folder beside the target and then renamed, so nobody sees half of it; of two processes
    that build at once, one's work is thrown away. The content is the same on every machine.

    Args:
        target: folder of the benchmark; holds dev.json, train.json, dev_tables.json and dev_databases/.
        sources: the folder `benchmarks/demo` of the configuration.
        progress: told in words what is being built, once a database.

    Returns:
        The target.

    Raises:
        DataError: the sources are missing or contradict themselves.
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
        for number, database in enumerate(databases, 1):
            say(f"Building the demo benchmark: {database.name} ({number} of {len(databases)})")
            write_database(database, built)
        write_questions(databases, built)
        write_tables(databases, built)
        _write_manifest(built, stamp)
        _publish(built, target, stamp, Path(aside))
    return target


def demo_stamp(sources: Path) -> str:
    """Return the sha256 of everything that the demo benchmark's content follows from."""
    digest = hashlib.sha256(f"builder {BUILDER_VERSION}\n".encode())
    own = Path(__file__).parent
    parts = [(path.relative_to(own), path) for path in own.glob("*.py")]
    parts += [
        (path.relative_to(sources), path)
        for folder in database_folders(sources)
        for path in folder.rglob("*")
        if path.suffix in {".sql", ".yaml", ".csv"}
    ]
    for name, path in sorted(parts):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name.as_posix()} {hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


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
        try:
            target.rename(aside / f"old-{attempt}")
        except FileNotFoundError:
            continue  # another process moved it first


def _write_manifest(folder: Path, stamp: str) -> None:
    sizes = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    (folder / MANIFEST).write_text(
        json.dumps({"stamp": stamp, "sizes": sizes}, indent=2) + "\n", encoding="utf-8"
    )


def _is_current(folder: Path, stamp: str) -> bool:
    """Whether `folder` was built from this stamp's sources and no file of it was lost or cut since."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return manifest["stamp"] == stamp and all(
            (folder / name).stat().st_size == size for name, size in manifest["sizes"].items()
        )
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError, KeyError, TypeError):
        return False
