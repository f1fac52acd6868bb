"""Persisted stage results, read without a task run for each."""

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flows.orchestration.stage_database import StageDatabase
from tasks.core.errors import ConfigurationError, StoreError
from tasks.settings.home import Home

if TYPE_CHECKING:
    from prefect.filesystems import WritableFileSystem

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_DELAYS_S = (0.5, 2.0, 8.0)
"""Seconds before each retry of a read or write that failed."""
PROBE, ABSENT = "probe/here", "probe/absent"


class PersistedResults:
    """Stage results: in the working folder's database, or in the storage that CROSSCHECK_STAGES or Prefect names."""

    def __init__(self, home: Home) -> None:
        """Find the storage, and check that it can be read and written, before the first paid call.

        Raises:
            ConfigurationError: it cannot.
        """
        from flows.orchestration.storage import storage_in_use

        storage = storage_in_use(home)
        self._store = StageDatabase(home.stage_results) if storage is None else _PrefectStorage(storage)

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under a key, None if there is none.

        Raises:
            StoreError: the storage cannot be reached.
        """
        return await self._store.read(key)

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Persist a result under a key.

        Raises:
            StoreError: it cannot be persisted.
        """
        await self._store.write(key, result)

    def close(self) -> None:
        """Close the storage."""
        self._store.close()


class _PrefectStorage:
    """Results in a storage of Prefect's, in its format; each is read once and kept in memory.

    Prefect's own `ResultStore.aread` takes ten times as long for a file on disk (a thread for each), so bytes are read
    here and deserialised by Prefect's `ResultRecord`.
    """

    def __init__(self, storage: "WritableFileSystem") -> None:
        from prefect.filesystems import LocalFileSystem
        from prefect.results import ResultStore
        from prefect.serializers import JSONSerializer

        self._read: dict[str, Mapping[str, Any]] = {}
        self._writer = ResultStore(result_storage=storage, serializer=JSONSerializer())
        self._store: _Folder | _Storage
        if isinstance(storage, LocalFileSystem):
            self._store = _Folder(Path(storage.basepath or "").expanduser())
        else:
            self._store = _Storage(storage)
        self._store.check()

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under a key, None if there is none.

        A truncated record (full disk, killed while writing) counts as missing: the stage runs again, and the reply
        cache answers its model calls.

        Raises:
            StoreError: the storage cannot be reached.
        """
        if key in self._read:
            return self._read[key]
        from prefect.results import ResultRecord  # type: ignore[attr-defined]  # public, but not in __all__

        content = await self._store.read(key)
        if content is None:
            return None
        try:
            result: Any = ResultRecord.deserialize(content).result
        except Exception as error:  # each serializer raises its own on truncated content
            log.warning("%s is truncated and is computed again: %s", key, error)
            return None
        if not isinstance(result, Mapping) or "value" not in result:
            return None
        self._read[key] = result
        return result

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Persist a result under a key.

        Raises:
            StoreError: it cannot be persisted, after retries.
        """
        await _with_retries(
            self._store.name, "written", lambda: self._writer.awrite(obj=dict(result), key=key)
        )

    def close(self) -> None:
        """Do nothing: no connection stays open."""


class _Folder:
    """Results in a local folder, read in a tenth of the time that a storage block takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)

    def check(self) -> None:
        """Check that the folder is writable."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except OSError as error:
            raise ConfigurationError(
                f"The results of stages cannot be kept in {self._folder}: {error.strerror}. Move what is there away, "
                "or name another working folder with --home or another folder with CROSSCHECK_STAGES."
            ) from error

    async def read(self, key: str) -> bytes | None:
        """Return the content of a file, None if there is none."""
        try:
            return (self._folder / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreachable(self.name, "read", error) from error


class _Storage:
    """Results in one of Prefect's storage blocks."""

    def __init__(self, storage: "WritableFileSystem") -> None:
        self._storage: Any = storage
        self.name = str(getattr(storage, "basepath", None) or storage.get_block_type_slug())

    def check(self) -> None:
        """Check writing, reading, and that a missing result is distinguished from unreachable storage."""
        try:
            self._storage.write_path(PROBE, b"here", _sync=True)
            if self._storage.read_path(PROBE, _sync=True) != b"here":
                raise OSError("what was written is not what is read")
        except Exception as error:  # storage libraries raise exceptions of any class
            raise self._unusable(error) from error
        try:
            self._storage.read_path(ABSENT, _sync=True)
        except Exception as error:
            if not is_absence(error):
                raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"The results of stages cannot be kept in {self.name}: {_message(error)}. No request was sent. Make sure "
            "that it is there and can be reached, and may be read, written and listed; or unset CROSSCHECK_STAGES to "
            "keep them in the working folder."
        )

    async def read(self, key: str) -> bytes | None:
        """Return the content under a key, None if there is none."""
        read: Callable[[str], Awaitable[bytes]] = getattr(
            self._storage, "aread_path", self._storage.read_path
        )

        async def read_or_none() -> bytes | None:
            try:
                return await read(key)
            except Exception as error:  # storage libraries raise exceptions of any class
                if is_absence(error):
                    return None
                raise

        return await _with_retries(self.name, "read", read_or_none)


async def _with_retries(name: str, done: str, work: Callable[[], Awaitable[T]]) -> T:
    for delay in (*RETRY_DELAYS_S, None):
        try:
            return await work()
        except Exception as error:  # storage libraries raise exceptions of any class
            if delay is None:
                raise _unreachable(name, done, error) from error
            log.warning("%s cannot be %s: %s", name, done, _message(error))
            await asyncio.sleep(delay)
    raise AssertionError("the last attempt returns or raises")


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
    return code in ("NoSuchKey", "404") or 404 in (
        getattr(error, "code", None),
        getattr(error, "status_code", None),
    )


def _unreachable(name: str, done: str, error: Exception) -> StoreError:
    return StoreError(
        f"The results of stages in {name} cannot be {done}: {_message(error)}. No further request is sent, since it "
        "may have been paid for already. When the storage answers again, the same command continues."
    )


def _message(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
