"""Stage results that earlier runs persisted, read without a task run for each."""

import json
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.errors import ConfigurationError
from tasks.settings.home import Home

log = logging.getLogger(__name__)


class PersistedResults:
    """Reads what Prefect persisted, wherever its result storage is; remembers what it has read."""

    def __init__(self, home: Home) -> None:
        from prefect.results import ResultStore

        # A store of our own: the flow's is told not to read, because the flow's own result is not persisted.
        self._store = ResultStore()
        self._local = _local_folder(home)
        if self._local:
            _demand_folder(self._local)
        self._read: dict[str, Mapping[str, Any]] = {}

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under that key, None when there is none or it cannot be read."""
        if key in self._read:
            return self._read[key]
        result = self._read_file(self._local / key) if self._local else await self._read_storage(key)
        if not isinstance(result, Mapping) or "value" not in result:
            return None
        self._read[key] = result
        return result

    def _read_file(self, file: Path) -> Any:
        """Read a record from local storage at a tenth of what the storage block costs: JSON within JSON.

        One that was cut off (a full disk, a kill in the middle of writing) is removed, since Prefect would fail on
        it too: the stage runs again, and a model call in it is answered by the reply cache.
        """
        try:
            return json.loads(json.loads(file.read_bytes())["result"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            log.warning("%s was cut off and is made anew: %s", file, error)
            file.unlink(missing_ok=True)
            return None

    async def _read_storage(self, key: str) -> Any:
        try:
            return (await self._store.aread(key)).result
        except Exception as error:  # storage back ends raise what they like for a key they do not have
            log.debug("%s is not restored: %s", key, error)
            return None


def _demand_folder(folder: Path) -> None:
    """Find what would lose the results of stages before one is paid for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"The results of stages cannot be kept in {folder}: {error.strerror}. Move what is there away, or name "
            "another working folder with --home."
        ) from error


def _local_folder(home: Home) -> Path | None:
    """Return the folder of persisted results, None where Prefect's settings name a storage block instead."""
    from prefect.settings import get_current_settings

    results = get_current_settings().results
    return None if results.default_storage_block else Path(results.local_storage_path or home.stage_results)
