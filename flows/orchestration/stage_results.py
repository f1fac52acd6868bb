"""Stage results that earlier runs persisted, read without a task run for each."""

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import ConfigurationError, StoreError
from tasks.settings.home import Home

if TYPE_CHECKING:
    from prefect.filesystems import WritableFileSystem

log = logging.getLogger(__name__)

RETRY_DELAYS_S = (0.5, 2.0, 8.0)
"""Seconds before each retry of a read that failed."""
PROBE, ABSENT = "probe/here", "probe/absent"


class PersistedResults:
    """Results in Prefect's result storage; each is read once and kept in memory.

    Prefect's own `ResultStore.aread` takes ten times as long for a file on disk (a thread for each), so bytes are read
    here and deserialised by Prefect's `ResultRecord`.
    """

    def __init__(self, home: Home) -> None:
        """Find the storage, and check that it can be read and written, before the first paid call.

        Raises:
            ConfigurationError: it cannot.
        """
        from prefect.filesystems import LocalFileSystem

        from flows.orchestration.storage import storage_in_use

        storage = storage_in_use(home)
        self._read: dict[str, Mapping[str, Any]] = {}
        self._store: _Folder | _Storage
        if isinstance(storage, LocalFileSystem):
            self._store = _Folder(Path(storage.basepath or "").expanduser())
        else:
            self._store = _Storage(storage)
        self._store.check()

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under a key, None if there is none.

        A truncated record (full disk, killed while writing) is removed, since Prefect would fail on it too: the stage
        runs again, and the reply cache answers its model calls.

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
            await self._store.remove(key)
            return None
        if not isinstance(result, Mapping) or "value" not in result:
            return None
        self._read[key] = result
        return result


class _Folder:
    """Results in a local folder, read in a tenth of the time that a storage block takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

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
            raise _unreachable(str(self._folder), error) from error

    async def remove(self, key: str) -> None:
        """Remove a file."""
        (self._folder / key).unlink(missing_ok=True)


class _Storage:
    """Results in one of Prefect's storage blocks."""

    def __init__(self, storage: "WritableFileSystem") -> None:
        self._storage: Any = storage
        self._name = str(getattr(storage, "basepath", None) or storage.get_block_type_slug())

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
            f"The results of stages cannot be kept in {self._name}: {_said(error)}. Nothing was asked. Make sure that "
            "it is there and can be reached, and may be read, written and listed; or unset CROSSCHECK_STAGES to keep "
            "them in the working folder."
        )

    async def read(self, key: str) -> bytes | None:
        """Return the content under a key, None if there is none."""
        read: Callable[[str], Awaitable[bytes]] = getattr(
            self._storage, "aread_path", self._storage.read_path
        )
        for delay in (*RETRY_DELAYS_S, None):
            try:
                return await read(key)
            except Exception as error:
                if is_absence(error):
                    return None
                if delay is None:
                    raise _unreachable(self._name, error) from error
                log.warning("%s cannot be read: %s", self._name, _said(error))
                await asyncio.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    async def remove(self, key: str) -> None:
        """Overwrite an unreadable result with content that Prefect treats as missing."""
        write = getattr(self._storage, "awrite_path", self._storage.write_path)
        await write(key, b"")


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


def _unreachable(name: str, error: Exception) -> StoreError:
    return StoreError(
        f"The results of stages in {name} cannot be read: {_said(error)}. Nothing more is asked, since it may "
        "have been paid for already. When the storage answers again, the same command continues."
    )


def _said(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
