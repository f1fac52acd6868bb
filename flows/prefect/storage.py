"""Result storage of stages: the location in CROSSCHECK_STAGES, set as Prefect's default."""

import hashlib
import os
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.spec import AbstractFileSystem
from prefect.blocks.core import Block
from prefect.exceptions import ObjectAlreadyExists
from prefect.filesystems import LocalFileSystem, RemoteFileSystem, WritableFileSystem
from prefect.results import get_default_result_storage
from prefect.settings import get_current_settings
from prefect.utilities.asyncutils import run_sync_in_worker_thread
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from flows.prefect.settings import apply, unnamed_storage
from tasks.core.errors import ConfigurationError
from tasks.settings.home import STAGES, Home, StorageBlock, StorageUrl, find_stages

BLOCK = "PREFECT_RESULTS_DEFAULT_STORAGE_BLOCK"


class StageStorage(RemoteFileSystem):
    """Prefect's RemoteFileSystem, except that it never blocks the event loop with network requests.

    Prefect's class opens and closes files in the event loop, which sends requests to an object store, and sends two for
    a read. It also shares one file system among all threads and ignores the host of a URL (`ftp://host/folder`).
    """

    _block_type_name = "Crosscheck stages"

    @property
    def filesystem(self) -> AbstractFileSystem:
        """File system of this thread, cached by fsspec."""
        system: AbstractFileSystem = url_to_fs(self.basepath, **self.settings)[0]
        return system

    async def aread_path(self, path: str) -> bytes:
        """Return the content of a path.

        Raises:
            FileNotFoundError: there is none.
        """

        def read(path: str) -> bytes:
            content: bytes = self.filesystem.cat_file(path)
            return content

        return await run_sync_in_worker_thread(read, self._resolve_path(path))

    async def awrite_path(self, path: str, content: bytes) -> str:
        """Write content to a path."""
        whole = self._resolve_path(path)

        def write() -> None:
            self.filesystem.makedirs(whole.rpartition("/")[0], exist_ok=True)
            self.filesystem.pipe_file(whole, content)

        await run_sync_in_worker_thread(write)
        return whole


def use_stage_storage(home: Home) -> None:
    """Set the result storage of this process's flows to CROSSCHECK_STAGES; to be called before they begin.

    Prefect identifies a result storage by a block on its server, so a URL is saved as a block there. If the variable is
    not set, Prefect's own settings apply, and without them the database in the working folder.
    """
    if not os.environ.get(STAGES):
        return
    location, results = find_stages(home), get_current_settings().results
    if isinstance(location, Path):
        named = results.default_storage_block or str(results.local_storage_path)
        _demand_agreement(named, str(location))
        return
    slug = location.slug if isinstance(location, StorageBlock) else _saved(location)
    _demand_agreement(results.default_storage_block or slug, slug)
    _demand_block(slug)
    apply({BLOCK: slug})


def storage_in_use(home: Home) -> WritableFileSystem | None:
    """Return Prefect's result storage, the default of its server included; None if no setting names one."""
    storage: WritableFileSystem = _now(get_default_result_storage)
    if os.environ.get(STAGES):
        if isinstance(find_stages(home), Path) and not isinstance(storage, LocalFileSystem):
            raise ConfigurationError(
                f"{STAGES} names a folder, but Prefect's server has a result storage of its own for everybody, which "
                f"wins. Unset {STAGES}, or remove the server's default result storage."
            )
        return storage
    unnamed = isinstance(storage, LocalFileSystem) and Path(storage.basepath or "") == unnamed_storage(home)
    return None if unnamed else storage


def _demand_agreement(prefects: str, ours: str) -> None:
    if prefects != ours:
        raise ConfigurationError(
            f"Prefect's settings keep results in {prefects} (PREFECT_DEFAULT_RESULT_STORAGE_BLOCK, "
            f"PREFECT_RESULTS_LOCAL_STORAGE_PATH or a profile), {STAGES} in {ours}. Unset one of them."
        )


def _saved(location: StorageUrl) -> str:
    """Save a URL as a block on Prefect's server, unless there is one; return its slug."""
    name = f"stages-{hashlib.sha256(location.url.encode()).hexdigest()[:12]}"
    block = StageStorage(basepath=location.url)
    try:
        _ = block.filesystem
    except (ImportError, ValueError, OSError) as error:  # unknown library, protocol or host
        raise ConfigurationError(f"{STAGES}: {location.url} cannot be used: {error}") from error
    try:
        _now(StageStorage.load, name)
    except ValueError:
        _save(block, name)
    return f"{StageStorage.get_block_type_slug()}/{name}"


def _save(block: StageStorage, name: str) -> None:
    """Save a block on Prefect's server, also while other processes save the same one.

    Prefect looks for the block type, its schema and the block, and creates those that are missing. Another process may
    create one of them in between, which Prefect reports as an error. Saving again then finds it.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(ObjectAlreadyExists), stop=stop_after_attempt(4), reraise=True
    )
    attempts(_now, block.save, name, overwrite=True)


def _demand_block(slug: str) -> None:
    try:
        block = _now(Block.load, slug)
    except Exception as error:  # a missing block, block type or library
        raise ConfigurationError(
            f"{STAGES}: the storage block {slug} cannot be loaded from Prefect's server: {error} Save it there, "
            f"install what it needs, or write ./{slug} if a folder is meant."
        ) from error
    if not isinstance(block, WritableFileSystem):
        raise ConfigurationError(f"{STAGES}: Prefect's block {slug} is no storage that can be written.")


def _now(method: Any, *arguments: Any, **more: Any) -> Any:
    """Call a method of Prefect that is a coroutine inside of an event loop, and wait for its result."""
    return method(*arguments, _sync=True, **more)
