"""Files: their digests, which are parts of cache keys, and how they are written whole or not at all."""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tasks.core.errors import ConfigurationError


def file_digest(path: Path) -> str:
    """Return the sha256 of a file, read in full once per process and (path, size, time of change)."""
    stat = path.stat()
    return remembered_digest(path.absolute(), stat.st_size, stat.st_mtime_ns)


def file_state(path: str | Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written: its number, size and time of change; () for no file."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - twice per query, and three times as fast
    except OSError:
        return ()
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


@cache
def remembered_digest(path: Path, size: int, changed_ns: int) -> str:
    """Return the sha256 of a file of a size and a time of change."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_size(path: "Path | os.DirEntry[str]", *, follow_symlinks: bool = True) -> int:
    """Return the size of a file in bytes; 0 if there is none, or another process removes it at this moment."""
    try:
        return path.stat(follow_symlinks=follow_symlinks).st_size
    except FileNotFoundError:
        return 0


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a draft beside a file, which replaces the file when the block ends, and is removed when it fails.

    The folder is made if it is missing. Several processes may write the same file: each has a draft of its own.
    """
    with _draft(path) as draft:
        yield draft
        draft.replace(path)


def atomic_write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all: where that fails, as on a full disk, the file stays as it was.

    Raises:
        OSError: it cannot be written.
    """
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def atomic_create(path: Path) -> Iterator[Path]:
    """Yield a draft beside a file, which becomes the file when the block ends, unless there is one by then.

    The folder is made if it is missing. Several processes may create the same file: the first one's stays.
    """
    with _draft(path) as draft:
        yield draft
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            if not path.exists():
                draft.replace(path)


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".writing-{secrets.token_hex(6)}.part")
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def check_writable(path: Path, option: str) -> None:
    """Check, before anything is paid for, that the file that an option names can be written.

    Raises:
        ConfigurationError: it cannot.
    """
    folder = path.parent
    if path.is_dir():
        raise ConfigurationError(f"{option} {path}: this is a folder. Name a file.")
    if not folder.is_dir():
        raise ConfigurationError(
            f"{option} {path}: there is no folder {folder}. Make it, or name another file."
        )
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{option} {path}: the folder {folder} cannot be written to.")
