"""Files: their digests, which are parts of cache keys, and how they are written whole or not at all."""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tasks.core.errors import ConfigurationError

MAX_PIPE = 1 << 28
"""Bytes that are read of a pipe, which may have no end."""
MAX_FILE = 1 << 31
"""Bytes of a file that is read as a whole; its content takes some times as much memory."""


def require_file(path: Path) -> None:
    """Make sure that what a user names is no device or pipe, which may have no end; OSError if it is, or is absent."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file", str(path))


def read_file(path: Path) -> bytes:
    """Return the content of a file or pipe that a user names; that of a pipe is read once per process.

    OSError if it cannot be read, is a device, or has more than `MAX_FILE` bytes, `MAX_PIPE` for a pipe.
    """
    status = path.stat()
    if stat.S_ISFIFO(status.st_mode):
        return _read_pipe(path.absolute(), status.st_dev, status.st_ino)
    require_file(path)
    if status.st_size > MAX_FILE:
        raise OSError(errno.EFBIG, f"the file has more than {MAX_FILE:,} bytes", str(path))
    return path.read_bytes()


@cache
def _read_pipe(path: Path, device: int, inode: int) -> bytes:
    """Read a pipe, which gives its content once; `device` and `inode` tell it from a later one at its path."""
    with path.open("rb") as pipe:
        content = pipe.read(MAX_PIPE + 1)
    if len(content) > MAX_PIPE:
        raise OSError(errno.EFBIG, f"the pipe has more than {MAX_PIPE:,} bytes", str(path))
    return content


def file_digest(path: Path) -> str:
    """Return the sha256 of a file, read in full once per process and (path, size, time of change)."""
    status = path.stat()
    return remembered_digest(path.absolute(), status.st_size, status.st_mtime_ns)


def file_state(path: str | Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written: its number, size and time of change; () for no file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - twice per query, and three times as fast
    except OSError:
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


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


def shown_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder that match a pattern, by name, without hidden ones such as macOS's `._a.csv`."""
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith("."))


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a draft beside a file, which replaces the file when the block ends, and is removed when it fails.

    The folder is made if it is missing. Several processes may write the same file: each has a draft of its own.
    """
    with _draft(path) as draft:
        yield draft
        draft.replace(path)


def atomic_write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all: where that fails with OSError, the file stays as it was."""
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def atomic_create(path: Path) -> Iterator[Path]:
    """Yield a draft beside a file, which becomes the file when the block ends, unless the file has been made meanwhile.

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

    A device or pipe is not checked.
    """
    folder = path.parent
    if path.is_dir():
        raise ConfigurationError(f"{option} {path}: this is a folder. Name a file.")
    if path.exists() and not path.is_file():
        return
    if not folder.is_dir():
        raise ConfigurationError(
            f"{option} {path}: there is no folder {folder}. Make it, or name another file."
        )
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{option} {path}: the folder {folder} cannot be written to.")
