"""The stores of a working folder: what they hold, and how what is not kept is removed."""

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from flows.orchestration.prefect_records import PrefectRecords
from flows.runtime.folder_use import only_cleaner, sole_use
from flows.storage.replies import Replies
from tasks.settings.evaluation import Keep
from tasks.settings.home import Home
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.night.night_file import all_nights
from tasks.tracking.night.pins import current_pins, pin_history
from tasks.tracking.retention.caches import Logs, UsedFiles, UsedRows
from tasks.tracking.retention.kept_runs import Retention, retention
from tasks.tracking.retention.mlflow_records import Artifacts, Traces
from tasks.tracking.retention.store import Holding, Store, size_of
from tasks.tracking.retention.warehouse_rows import WarehouseRows
from tasks.tracking.warehouse.runs import Warehouse

log = logging.getLogger(__name__)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Folder:
    """A working folder at one moment."""

    home: Home  # the folder
    retention: Retention  # what of it is kept
    stores: tuple[Store, ...]  # in the order in which they are listed and cleaned

    def holdings(self) -> tuple[Holding, ...]:
        """Count everything, the nights, the recordings and the rest of the folder included."""
        home = self.home
        found = [self._holding(store) for store in self.stores]
        nights = list(home.nights.glob("*.json"))
        recordings = [path for path in home.path.glob("*.jsonl") if path.is_file()]
        found.insert(1, Holding("nights", home.nights, size_of(home.nights), {"nights": len(nights)}))
        recorded = Holding(
            "recordings", home.path, sum(map(size_of, recordings)), {"recordings": len(recordings)}
        )
        inside = sum(each.size for each in (*found, recorded) if each.path.is_relative_to(home.path))
        rest = Holding("other files", home.path, max(0, size_of(home.path) - inside))
        return (*found, recorded, rest)

    def _holding(self, store: Store) -> Holding:
        try:
            return store.holding(self.retention)
        except sqlite3.Error as error:  # damaged, or locked for longer than others wait for it
            return Holding(store.name, store.path, size_of(store.path), note=f"It cannot be read: {error}")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a cleaning did."""

    # before, after: bytes of the folder
    before: int
    after: int
    problems: tuple[str, ...] = ()  # what could not be removed and why, in sentences
    shrunk: bool = True  # whether the files were shrunk: no other process used the folder


def open_folder(home: Home, keep: Keep, *, replies: bool = False) -> Folder:
    """Return a working folder and what of it is kept; with `replies`, old replies may be removed, too.

    Raises:
        CrosscheckError: the warehouse or the file of a night cannot be read; without them it is not known what is kept.
    """
    kept = retention(
        keep, Warehouse(home.warehouse).runs(), all_nights(home), current_pins(pin_history(home)).values()
    )
    mlflow = home.path / "mlflow.db"
    stores = (
        WarehouseRows(home.warehouse),
        Replies(home, may_remove=replies),
        UsedRows("stage results", home.stage_results, "results"),
        UsedRows("verdicts", home.verdicts, "verdicts"),
        PrefectRecords(home.prefect / "prefect.db"),
        Traces(mlflow),
        Artifacts(home.path / "mlartifacts", mlflow),
        UsedFiles("value indexes", home.values, "databases"),
        UsedFiles("embeddings", home.embeddings, "lists"),
        Logs(home.path, (home.path, home.services)),
    )
    return Folder(home, kept, stores)


def clean(folder: Folder, say: Say = lambda text: None) -> Cleaned:
    """Remove what is not kept, then shrink the files if no other process uses the folder.

    Killed at any moment, the next cleaning continues. What is being done is said with `say`.

    Raises:
        ConfigurationError: another process is cleaning it.
    """
    before = size_of(folder.home.path)
    problems: list[str] = []
    with only_cleaner(folder.home):
        for store in folder.stores:
            say(f"Removing from {store.name}")
            problems += _attempted(store, partial(store.remove, folder.retention))
        with sole_use(folder.home) as alone:
            if alone:
                for store in folder.stores:
                    say(f"Shrinking {store.name}")
                    problems += _attempted(store, store.shrink)
    return Cleaned(before, size_of(folder.home.path), tuple(problems), alone)


def _attempted(store: Store, work: Callable[[], None]) -> Sequence[str]:
    try:
        work()
    except (
        Exception
    ) as error:  # SQLAlchemy, Prefect and MLflow raise many kinds; the other stores are cleaned
        log.warning("%s could not be cleaned", store.name, exc_info=True)
        return [f"{store.name} in {store.path}: {str(error).rstrip('.')}. The next cleaning continues."]
    return []


def not_ours(home: Home) -> list[str]:
    """Return which stores are elsewhere, and are left to their owners."""
    named = []
    if find_store(home).served:
        named.append("MLFLOW_TRACKING_URI")
    named += [name for name in ("PREFECT_API_URL", "CROSSCHECK_STAGES") if os.environ.get(name)]
    return named
