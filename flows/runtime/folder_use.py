"""Use of a working folder: its room and presence while a command runs, and a lock.

`crosscheck clean` shrinks files only while no other process has the lock.
"""

import fcntl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import IO

import click

from flows.runtime.control import Interrupted
from tasks.backbone.cache.room import MIN_FREE, NEEDED, RESERVE, Folder, NoRoomError
from tasks.core.errors import BackboneError, ConfigurationError, DatabaseUnavailableError
from tasks.settings.home import Home

_UNRELATED = (BackboneError, DatabaseUnavailableError, Interrupted)
"""Errors that have nothing to do with the disk of the working folder."""
_LOCK = "in-use.lock"


def require_room(home: Home) -> None:
    """Check that a working folder can be written and has room."""
    with closing(Folder(home.path)) as folder:
        if problem := folder.problem(NEEDED):
            raise NoRoomError(problem)


@contextmanager
def watched(home: Home) -> Iterator[None]:
    """Check the room of a working folder before a command's work, and that the folder is still there at its end.

    What fails within for want of room, in whatever library, is raised as that.
    """
    require_room(home)
    with closing(Folder(home.path)) as folder:
        try:
            yield
        except Exception as error:
            # the reserve of the reply cache is released by now
            if not isinstance(error, _UNRELATED) and (problem := folder.problem(2 * RESERVE)):
                raise NoRoomError(problem) from error
            raise
        if problem := folder.problem(MIN_FREE):
            raise NoRoomError(problem)


class FolderUse:
    """Shared lock on a working folder, until `end` or the end of the process, however it ends."""

    def __init__(self, home: Home) -> None:
        """Lock the folder, after waiting for a `crosscheck clean` that shrinks files."""
        self._file = _opened(home, _LOCK)
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            click.echo('Waiting for "crosscheck clean", which rewrites files of the working folder', err=True)
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def end(self) -> None:
        """Unlock the folder."""
        self._file.close()


@contextmanager
def sole_use(home: Home) -> Iterator[bool]:
    """Lock the folder for this process alone while the block runs; yields whether that was possible."""
    with _opened(home, _LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def is_in_use(home: Home) -> bool:
    """Return whether another process has the lock; writes nothing."""
    try:
        with (home.path / _LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file
        return False
    return False


@contextmanager
def only_cleaner(home: Home) -> Iterator[None]:
    """Let no other process clean the folder while the block runs."""
    with _opened(home, "clean.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f'"crosscheck clean" already runs for {home.path}. Wait until it has ended.'
            ) from error
        yield


def _opened(home: Home, name: str) -> IO[bytes]:
    return (home.path / name).open("ab")
