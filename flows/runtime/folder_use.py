"""Lock on the use of a working folder: `crosscheck clean` shrinks its files only while no other process uses them."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import click

from tasks.errors import ConfigurationError
from tasks.settings.home import Home


class FolderUse:
    """Shared lock on a working folder, until `end` or the end of the process, however it ends."""

    def __init__(self, home: Home) -> None:
        """Lock the folder, after waiting for a `crosscheck clean` that shrinks files."""
        self._file = _opened(home, "in-use.lock")
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
    with _opened(home, "in-use.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def only_cleaner(home: Home) -> Iterator[None]:
    """Let no other process clean the folder while the block runs.

    Raises:
        ConfigurationError: another process does.
    """
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
