"""Room on the disk of the working folder: what a run needs to begin, and a reserve for the replies in flight."""

import errno
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from tasks.core.errors import StoreError

lost = logging.getLogger(f"{__name__}.lost")
"""Its warnings, of paid replies that are lost, are printed on the terminal, too: the log may be on the same disk."""

MB = 1_000_000
RESERVE = 4 * MB
"""Bytes kept free for the replies of calls in flight: SQLite writes a reply, its request and some pages twice."""
MIN_FREE = 256_000
"""Bytes without which a disk counts as full at the end of a run."""
NEEDED = 24 * MB
"""Bytes that must be free before a run begins: the stores of an empty working folder take 11 MB."""


class NoRoomError(StoreError):
    """Disk that is full or read-only, or a working folder that is gone; the same command can be run again later."""

    exit_code = 3


class Reserve:
    """Bytes of a disk that are kept free until `release`, or until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._file: IO[bytes] | None = None
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as the reserve is held
            _fill(self._file, RESERVE)
        except OSError as error:
            self.release()
            raise NoRoomError(no_room(folder, error.strerror)) from error

    def release(self) -> None:
        """Give the bytes to what is to be written now."""
        if self._file:
            self._file.close()


def no_room(path: Path, why: str | None) -> str:
    """Return the message for a disk that takes nothing more."""
    return (
        f"{path} cannot be written ({why}), so no further request is sent; stored replies are kept. Make the "
        f"disk writable, with {NEEDED // MB} MB free; then run the same command again to continue."
    )


def _fill(file: IO[bytes], size: int) -> None:
    file.write(os.urandom(size))  # nothing that a file system stores in less
    file.flush()


class OpenFolder:
    """A working folder while a command runs: whether it is still there and its disk has room."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY)  # kept open, so that no other folder gets its number

    def close(self) -> None:
        """End the watch."""
        os.close(self._descriptor)

    def problem(self, needed: int) -> str:
        """Return why the folder is not there or has less than `needed` bytes of room; "" if neither.

        Whether it can be written is found out by writing up to `RESERVE` bytes.
        """
        try:
            if not os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
                return self._gone
            if shutil.disk_usage(self.path).free < needed:
                return no_room(self.path, os.strerror(errno.ENOSPC))
            with tempfile.TemporaryFile(dir=self.path) as file:
                _fill(file, min(needed, RESERVE))
        except FileNotFoundError:
            return self._gone
        except OSError as error:
            return no_room(self.path, error.strerror)
        return ""

    @property
    def _gone(self) -> str:
        return (
            f"The working folder {self.path} was removed or replaced while the command ran: what was written there "
            "since is lost. Do not remove it during a run. Run the same command to start again."
        )
