"""Stage results: in the working folder's database, or where CROSSCHECK_STAGES names a place for several machines."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import AsyncRetrying, stop_after_attempt, wait_chain, wait_fixed

from tasks.core.errors import ConfigurationError, StoreError, first_problem
from tasks.database.keyed_store import KeyedStore
from tasks.settings.home import Home, find_stages

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

log = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_TIMEOUT_S = 30.0
"""Seconds to wait while another process of this machine writes."""
RETRY_DELAYS_S = (0.5, 2.0, 8.0)
"""Seconds before each retry of a read or write of a storage that failed."""
MAX_REQUESTS = 64
"""Requests to a storage at a time; each waits for the network."""
PROBE, ABSENT = "probe/here", "probe/absent"
"""Keys with which a storage is tried: one that is written, and one that has no result."""


def open_results(home: Home) -> "PersistedResults":
    """Open the stage results, and check that they can be read and written, before the first paid call."""
    location = find_stages()
    return SharedStages(location) if location else StageDatabase(home.stage_results)


class StageDatabase:
    """Stage results in a SQLite file, each written in a transaction of its own."""

    def __init__(self, path: Path) -> None:
        """Open the file, creating it when missing; rename a damaged one and create a new one."""
        self.path = path
        loss = "stages run again, with the replies that are in the reply cache"
        try:
            self._store = KeyedStore(path, loss, timeout_s=BUSY_TIMEOUT_S)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The results of stages cannot be kept in {path}: {first_problem(error)}. Check that its folder "
                "can be written, is on a local disk and not full; or move the file away (with its -wal and -shm): "
                "model replies are kept elsewhere, so that nothing is paid for again."
            ) from error

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under a key; None if there is none, or it is damaged."""
        with self._usable():
            content = self._store.get(key)
        return _result_in(content, f"{key} in {self.path}")

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Store a result under a key."""
        with self._usable():
            self._store.put(key, json.dumps(result, ensure_ascii=False, separators=(",", ":")))

    def close(self) -> None:
        """Note which earlier results were used, for `crosscheck clean`, and close the file."""
        self._store.close()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Turn an error of the database or its disk into one that says what is kept and what to do."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"The results of stages in {self.path} cannot be used: {first_problem(error)}. No further request is "
                "sent. When the disk has room and the file can be written, run the same command again to continue; "
                "replies that were paid for are kept."
            ) from error


class SharedStages:
    """Stage results in a folder or an object store that machines share: a JSON file for each, by fsspec."""

    def __init__(self, location: str) -> None:
        """Check that results can be written and read there, and that reading a missing one returns None."""
        self.name = location
        self._threads = ThreadPoolExecutor(MAX_REQUESTS, "stage results")
        try:
            self._put(PROBE, b"here")
            if self._get(PROBE) != b"here":
                raise OSError("the content that was read is not the content that was written")
            self._get(ABSENT)  # raises an error if the storage does not report a missing file as such
        except Exception as error:  # storage libraries raise exceptions of any class
            raise ConfigurationError(
                f"The results of stages cannot be kept in {self.name}: {_message(error)}. No request was sent. Make "
                "sure that it exists, can be reached, and can be read, written and listed; or unset CROSSCHECK_STAGES "
                "to keep them in the working folder."
            ) from error

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under a key; None if there is none, or it is damaged."""
        content = await self._retry("read", partial(self._get, key))
        return _result_in(content, f"{key} in {self.name}")

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Store a result under a key."""
        await self._retry("written", partial(self._put, key, json.dumps(result).encode()))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False)

    def _file(self, key: str) -> "tuple[AbstractFileSystem, str]":
        """Return the file system of this thread, cached by fsspec, and the path of a result in it."""
        from fsspec.core import url_to_fs

        files, folder = url_to_fs(self.name)
        return files, f"{folder.rstrip('/')}/{key}"

    def _get(self, key: str) -> bytes | None:
        files, path = self._file(key)
        try:
            content: bytes = files.cat_file(path)
        except FileNotFoundError:
            return None
        return content

    def _put(self, key: str, content: bytes) -> None:
        files, path = self._file(key)
        try:
            files.pipe_file(path, content)
        except FileNotFoundError:  # the first result of a stage; object stores have no folders
            files.makedirs(path.rpartition("/")[0], exist_ok=True)
            files.pipe_file(path, content)

    async def _retry(self, done: str, work: Callable[[], T]) -> T:
        """Do work in a thread, since it waits for the network; a failure is repeated after a pause.

        `done`: what messages call the work, "read" or "written".
        """
        attempts = AsyncRetrying(
            stop=stop_after_attempt(len(RETRY_DELAYS_S) + 1),
            wait=wait_chain(*map(wait_fixed, RETRY_DELAYS_S or (0,))),
            before_sleep=lambda state: log.warning("%s cannot be %s: %s", self.name, done, state.outcome),
            reraise=True,
        )

        async def in_thread() -> T:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

        try:
            return await attempts(in_thread)
        except Exception as error:  # storage libraries raise exceptions of any class
            raise StoreError(
                f"The results of stages in {self.name} cannot be {done}: {_message(error)}. No further request is "
                "sent, since it may have been paid for already. When the storage answers again, run the same command "
                "again to continue."
            ) from error


PersistedResults = StageDatabase | SharedStages
"""Where the stage results of an evaluation are persisted; keys are `stage/sha256`."""


def _result_in(content: str | bytes | None, name: str) -> Mapping[str, Any] | None:
    """Return the stage result that was stored, None if it is damaged, as by a full disk or a kill while it was written.

    The stage then runs again, and the reply cache answers its model calls.
    """
    try:
        result = None if content is None else json.loads(content)
    except (ValueError, RecursionError) as error:
        log.warning("%s is damaged and is computed again: %s", name, error)
        return None
    return result if isinstance(result, Mapping) and "value" in result else None


def _message(error: Exception) -> str:
    return " ".join(first_problem(error).split()).rstrip(".") or type(error).__name__
