"""Stage results: in the working folder's database, or in the storage that CROSSCHECK_STAGES or Prefect names."""

import json
import logging
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import AsyncRetrying, stop_after_attempt, wait_chain, wait_fixed

from tasks.core.errors import ConfigurationError, StoreError, first_problem
from tasks.database.keyed_store import KeyedStore
from tasks.settings.home import Home

if TYPE_CHECKING:
    from prefect.filesystems import WritableFileSystem

log = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_TIMEOUT_S = 30.0
"""Seconds to wait while another process of this machine writes."""
RETRY_DELAYS_S = (0.5, 2.0, 8.0)
"""Seconds before each retry of a read or write of a storage that failed."""
PROBE, ABSENT = "probe/here", "probe/absent"


def open_results(home: Home, *, in_prefect: bool = True) -> "PersistedResults":
    """Open the stage results, and check that they can be read and written, before the first paid call.

    Without Prefect they are those in the working folder's database: its server may know another storage.
    """
    if not in_prefect:
        return StageDatabase(home.stage_results)
    from flows.prefect.storage import storage_in_use

    storage = storage_in_use(home)
    return StageDatabase(home.stage_results) if storage is None else PrefectStorage(storage)


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
        """Return the result under a key; None if there is none, or if it cannot be read as one."""
        with self._usable():
            content = self._store.get(key)
        try:
            return None if content is None else _checked(json.loads(content))
        except (ValueError, RecursionError) as error:
            log.warning("%s in %s is damaged and is computed again: %s", key, self.path, error)
            return None

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Store a result under a key."""
        with self._usable():
            self._store.put(key, json.dumps(result, ensure_ascii=False, separators=(",", ":")))

    def close(self) -> None:
        """Note which earlier results were used, for `crosscheck clean`, and close the file."""
        self._store.close()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"The results of stages in {self.path} cannot be used: {first_problem(error)}. No further request is "
                "sent. When the disk has room and the file can be written, run the same command again to continue; "
                "replies that were paid for are kept."
            ) from error


class PrefectStorage:
    """Stage results in a storage of Prefect's, in its format; each is read once and kept in memory.

    Bytes are read here, because Prefect's own `ResultStore.aread` takes ten times as long.
    """

    def __init__(self, storage: "WritableFileSystem") -> None:
        """Check that the storage can be read and written."""
        from prefect.filesystems import LocalFileSystem
        from prefect.results import ResultStore
        from prefect.serializers import JSONSerializer

        self._known: dict[str, Mapping[str, Any]] = {}
        self._storage: Any = storage
        self._writer = ResultStore(result_storage=storage, serializer=JSONSerializer())
        self._folder: Path | None = None
        if isinstance(storage, LocalFileSystem):
            self._folder = Path(storage.basepath or "").expanduser()
            self.name = str(self._folder)
            _check_folder(self._folder)
        else:
            self.name = str(getattr(storage, "basepath", None) or storage.get_block_type_slug())
            self._check_storage()

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under a key, None if there is none.

        A truncated record (full disk, killed while writing) counts as missing: the stage runs again, and the reply
        cache answers its model calls.
        """
        if key in self._known:
            return self._known[key]
        from prefect.results import ResultRecord  # type: ignore[attr-defined]  # public, but not in __all__

        content = self._read_file(self._folder / key) if self._folder else await self._read_storage(key)
        if content is None:
            return None
        try:
            result = _checked(ResultRecord.deserialize(content).result)
        except Exception as error:  # each serializer raises its own on truncated content
            log.warning("%s is truncated and is computed again: %s", key, error)
            return None
        if result is not None:
            self._known[key] = result
        return result

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Persist a result under a key."""
        await self._retried("written", partial(self._writer.awrite, obj=dict(result), key=key))

    def close(self) -> None:
        """Do nothing: no connection stays open."""

    def _read_file(self, file: Path) -> bytes | None:
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreachable("read", error) from error

    async def _read_storage(self, key: str) -> bytes | None:
        read = getattr(self._storage, "aread_path", self._storage.read_path)

        async def read_or_none() -> bytes | None:
            try:
                content: bytes = await read(key)
            except Exception as error:  # storage libraries raise exceptions of any class
                if is_absence(error):
                    return None
                raise
            return content

        return await self._retried("read", read_or_none)

    def _check_storage(self) -> None:
        """Check writing, reading, and that a missing result is distinguished from unreachable storage."""
        try:
            self._storage.write_path(PROBE, b"here", _sync=True)
            if self._storage.read_path(PROBE, _sync=True) != b"here":
                raise OSError("the content that was read is not the content that was written")
            try:
                self._storage.read_path(ABSENT, _sync=True)
            except Exception as error:
                if not is_absence(error):
                    raise
        except Exception as error:  # storage libraries raise exceptions of any class
            raise ConfigurationError(
                f"The results of stages cannot be kept in {self.name}: {_message(error)}. No request was sent. Make "
                "sure that it exists, can be reached, and can be read, written and listed; or unset CROSSCHECK_STAGES "
                "to keep them in the working folder."
            ) from error

    async def _retried(self, done: str, work: Callable[[], Awaitable[T]]) -> T:
        attempts = AsyncRetrying(
            stop=stop_after_attempt(len(RETRY_DELAYS_S) + 1),
            wait=wait_chain(*map(wait_fixed, RETRY_DELAYS_S or (0,))),
            before_sleep=lambda state: log.warning("%s cannot be %s: %s", self.name, done, state.outcome),
            reraise=True,
        )
        try:
            return await attempts(work)
        except Exception as error:  # storage libraries raise exceptions of any class
            raise self._unreachable(done, error) from error

    def _unreachable(self, done: str, error: Exception) -> StoreError:
        return StoreError(
            f"The results of stages in {self.name} cannot be {done}: {_message(error)}. No further request is sent, "
            "since it may have been paid for already. When the storage answers again, run the same command again to "
            "continue."
        )


PersistedResults = StageDatabase | PrefectStorage
"""Where the stage results of an evaluation are persisted; keys are `stage/sha256`."""


def is_absence(error: Exception) -> bool:
    """Return whether a storage error means a missing object, not unreachable storage.

    Each library has its own error: files and fsspec raise FileNotFoundError, Prefect's local storage ValueError,
    Amazon's answers carry a code, Google's and Microsoft's exceptions the status of HTTP.
    """
    if isinstance(error, FileNotFoundError):
        return True
    if isinstance(error, ValueError):
        return "does not exist" in str(error)
    answer = getattr(error, "response", None)
    code = answer.get("Error", {}).get("Code") if isinstance(answer, Mapping) else None
    statuses = (getattr(error, "code", None), getattr(error, "status_code", None))
    return code in ("NoSuchKey", "404") or 404 in statuses


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"The results of stages cannot be kept in {folder}: {error.strerror}. Move what is there away, "
            "or name another working folder with --home or another folder with CROSSCHECK_STAGES."
        ) from error


def _checked(result: Any) -> Mapping[str, Any] | None:
    return result if isinstance(result, Mapping) and "value" in result else None


def _message(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
