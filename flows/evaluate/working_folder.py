"""The stores of a working folder: what they hold, how they are shown, and how what is not kept is removed."""

import datetime
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from flows.prefect.prefect_records import PrefectRecords
from flows.runtime.folder_use import is_in_use, sole_use
from tasks.backbone.cache.entry import CacheStats, ModelStats
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.core.errors import ConfigurationError, CrosscheckError, did_you_mean
from tasks.core.wording import counted, money, shorten, size
from tasks.documents.model import Block, Column, Document, Sentence, Span, Table
from tasks.results.mlflow.store import find_store, reason_of
from tasks.results.night import all_nights
from tasks.results.night_baseline import current_pins, pin_history
from tasks.results.retention import (
    Artifacts,
    FolderStore,
    Holding,
    Retention,
    Traces,
    UsedFiles,
    UsedRows,
    WarehouseRows,
    retention,
    size_of,
)
from tasks.results.run_record import JsonDocument, TextOrNull, at
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import Keep
from tasks.settings.home import Home, find_replies

log = logging.getLogger(__name__)

ALL, DAMAGED = "all", "damaged"
"""Names for the replies of every model, and for those that cannot be read."""


@dataclass(frozen=True)
class Replies(FolderStore):
    """The reply cache, in the working folder or where CROSSCHECK_REPLIES names it.

    The replies of the `named` models are removed, whatever their age; also `ALL` and `DAMAGED`.
    """

    location: Path | str  # the file, or the URL of a database
    named: Sequence[str] = ()

    def holding(self, retention: Retention) -> Holding:
        """Count the replies and what they cost, by model."""
        if isinstance(self.location, Path) and not self.location.exists():
            return Holding(self.name, self.location, counts={"replies": 0})
        try:
            with open_reply_cache(self.location) as cache:
                stats = cache.stats()
                location = Path(cache.location)
                removable = self._count_removable(cache, stats)
                batches = cache.batches("").under_way()
        except ConfigurationError:
            raise
        except CrosscheckError as error:
            return Holding(self.name, self.path, note=str(error))
        unpriced = sum(model.unpriced for model in stats.models)
        cost_usd = sum(model.cost_usd for model in stats.models if model.cost_usd is not None)
        notes = (
            [f"{counted(unpriced, 'reply')} without a known price."] if 0 < unpriced < stats.entries else []
        )
        if batches:
            first_submitted = datetime.datetime.fromtimestamp(batches[0].submitted_at, datetime.UTC)
            requests = counted(sum(batch.requests for batch in batches), "request")
            notes.append(
                f"{counted(len(batches), 'batch')} under way ({requests}), the first since "
                f"{first_submitted:%Y-%m-%d %H:%M} UTC: the command that submitted one collects its answers."
            )
        return Holding(
            self.name,
            location,
            stats.bytes,
            {"replies": stats.entries},
            {"replies": removable},
            stats.bytes * removable // stats.entries if stats.entries else 0,
            cost_usd=None if unpriced == stats.entries else cost_usd,
            note=" ".join(notes),
            parts=tuple(
                Holding(
                    model.model, location, model.bytes, {"replies": model.entries}, cost_usd=model.cost_usd
                )
                for model in stats.models
            ),
        )

    def cost_of_removable(self) -> tuple[float, int]:
        """Return what the replies of the named models have cost, and how many have no known price."""
        with open_reply_cache(self.location) as cache:
            models = self._removable(cache.stats())
        return sum(model.cost_usd or 0.0 for model in models), sum(model.unpriced for model in models)

    def remove(self, retention: Retention) -> None:
        """Remove the named replies; the cache shrinks itself."""
        if not self.named:
            return
        with open_reply_cache(self.location) as cache:
            if DAMAGED in self.named:
                cache.remove(cache.damaged())
            for model in self._removable(cache.stats()):
                cache.prune(model.model)

    def _removable(self, stats: CacheStats) -> list[ModelStats]:
        return [model for model in stats.models if ALL in self.named or model.model in self.named]

    def _count_removable(self, cache: ReplyCache, stats: CacheStats) -> int:
        """Count the named replies, after checking that there are such models."""
        names = [ALL, DAMAGED, *(model.model for model in stats.models)]
        for name in self.named:
            if name not in names:
                raise ConfigurationError(
                    f'--replies {name}: there is no reply of a model "{name}". {did_you_mean(name, names)}'
                )
        removable = self._removable(stats)
        damaged = len(cache.damaged()) if DAMAGED in self.named and not removable else 0
        return sum(model.entries for model in removable) + damaged


@dataclass(frozen=True, slots=True)
class Folder:
    """A working folder at one moment."""

    home: Home
    retention: Retention
    stores: tuple[FolderStore, ...]  # in the order in which they are listed and cleaned

    def holdings(self) -> tuple[Holding, ...]:
        """Count everything, the nights and the rest of the folder included.

        While another process uses the folder, files that would have to shrink free nothing.
        """
        home = self.home
        in_use = is_in_use(home)
        holdings = []
        for store in self.stores:
            try:
                holding = store.holding(self.retention)
                shrinks = type(store).shrink is not FolderStore.shrink
                holdings.append(replace(holding, frees=0) if in_use and shrinks else holding)
            except sqlite3.Error as error:  # damaged, or locked for longer than others wait for it
                note = f"It cannot be read: {error}"
                holdings.append(Holding(store.name, store.path, size_of(store.path), note=note))
        nights = list(home.nights.glob("*.json"))  # listed behind the runs
        holdings.insert(1, Holding("nights", home.nights, size_of(home.nights), {"nights": len(nights)}))
        inside = sum(part.size for part in holdings if part.path.is_relative_to(home.path))
        rest = Holding("other files", home.path, max(0, size_of(home.path) - inside))
        return (*holdings, rest)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a cleaning did."""

    before_bytes: int  # size of the folder
    after_bytes: int
    shrunk: bool  # whether the files were shrunk: no other process used the folder
    problems: tuple[str, ...]  # what could not be removed and why, in sentences


def open_folder(home: Home, keep: Keep, *, replies: Sequence[str] = ()) -> Folder:
    """Return a working folder and what of it is kept; `replies` names the replies that are removed, too."""
    kept = retention(
        keep, Warehouse(home.warehouse).runs(), all_nights(home), current_pins(pin_history(home)).values()
    )
    mlflow = home.path / "mlflow.db"
    stores = (
        WarehouseRows("runs", home.warehouse),
        Replies("replies", home.replies, find_replies(home), replies),
        UsedRows("stage results", home.stage_results, "results"),
        UsedRows("verdicts", home.verdicts, "verdicts"),
        PrefectRecords("Prefect", home.prefect / "prefect.db"),
        Traces("MLflow", mlflow),
        Artifacts("artifacts", home.path / "mlartifacts", mlflow),
        UsedFiles("value indexes", home.values, "databases"),
        UsedFiles("embeddings", home.embeddings, "lists"),
    )
    return Folder(home, kept, stores)


def clean(folder: Folder, say: Callable[[str], None] = lambda text: None) -> Cleaned:
    """Remove what is not kept, then shrink the files if no other process uses the folder.

    Killed at any moment, the next cleaning continues. What is being done is said with `say`.
    """
    before = size_of(folder.home.path)
    problems: list[str] = []
    for store in folder.stores:
        say(f"Removing from {store.name}")
        problems += _problems_in(store, partial(store.remove, folder.retention))
    with sole_use(folder.home) as is_alone:
        for store in folder.stores if is_alone else ():
            say(f"Shrinking {store.name}")
            problems += _problems_in(store, store.shrink)
    return Cleaned(before, size_of(folder.home.path), is_alone, tuple(dict.fromkeys(problems)))


def _problems_in(store: FolderStore, work: Callable[[], None]) -> Sequence[str]:
    """Do work on a store; return a sentence about its failure, nothing if it succeeds."""
    try:
        work()
    except Exception as error:  # of SQLAlchemy, Prefect or MLflow; the other stores are cleaned
        log.warning("%s could not be cleaned", store.name, exc_info=True)
        return [f"{store.name} in {store.path}: {reason_of(error)} The next cleaning continues."]
    return []


def not_ours(home: Home) -> list[str]:
    """Return which stores are elsewhere, and are left to their owners."""
    variables = ["MLFLOW_TRACKING_URI"] if find_store(home).served else []
    return variables + [name for name in ("PREFECT_API_URL", "CROSSCHECK_STAGES") if os.environ.get(name)]


NOT_SHRUNK = "Files shrink only while no other process, such as `crosscheck up`, uses the working folder."


def holdings_document(folder: Folder, holdings: Sequence[Holding]) -> Document:
    """Return a table of the stores, and what is kept."""
    columns = (Column(name, "text") for name in ("holds", "`clean` removes", "and frees", "in"))
    rows: list[tuple[str, ...] | None] = []
    for holding in holdings:
        rows.append(_row(holding.name, holding, _location(holding, folder)))
        rows += [_row(f"  {part.name}", part) for part in holding.parts]
    total, frees = sum(holding.size for holding in holdings), sum(holding.frees for holding in holdings)
    rows += [None, ("all", size(total), "", "", f"about {size(frees)}" if frees else "nothing", "")]
    kept = folder.retention
    notes = [f"{part.name}: {part.note}" for part in holdings if part.note]
    if is_in_use(folder.home):
        notes.append(f"{NOT_SHRUNK} One does now.")
    if elsewhere := not_ours(folder.home):
        notes.append(
            f"What is kept where {shorten(elsewhere, 3)} names is not counted here, and not cleaned."
        )
    older = counted(len(kept.removable), "older run") if kept.removable else ""
    older = older and f". Of {older}, `clean` keeps the scores{' and questions' if kept.rows else ''} only"
    blocks: tuple[Block, ...] = (
        Table("", ("store", "size", *columns), tuple(rows), keep=3),
        Sentence(
            f"{folder.home.path} · kept: everything used since {kept.cutoff:%Y-%m-%d %H:%M} UTC, and the traces and "
            f"artifacts of {counted(len(kept.kept), 'run')}{older}"
        ),
        *(Sentence((Span("·", "quiet"), f" {note}")) for note in notes),
    )
    return Document("", blocks)


def _row(name: str, holding: Holding, location: str = "") -> tuple[str, ...]:
    paid = f", paid {money(holding.cost_usd)}" if holding.counts.get("replies") else ""
    return (
        name,
        size(holding.size),
        f"{_counts(holding.counts)}{paid}",
        _counts({noun: count for noun, count in holding.removable.items() if count}),
        f"about {size(holding.frees)}" if holding.frees else "",
        location,
    )


def in_words(cleaned: Cleaned) -> str:
    """Say what was freed, and what could not be done."""
    before, after = cleaned.before_bytes, cleaned.after_bytes
    freed = f"Nothing freed ({size(after)})."
    if before > after:
        freed = f"Freed {size(before - after)}: {size(after)} are left of {size(before)}."
    return " ".join((freed, *cleaned.problems, *([] if cleaned.shrunk else [NOT_SHRUNK])))


class PartDocument(JsonDocument):
    """What a part of a store holds."""

    name: str
    bytes: int = at("size")
    counts: dict[str, int]
    cost_usd: float | None


class StoreDocument(PartDocument):
    """What a store holds."""

    path: Path
    removable: dict[str, int]
    frees_bytes: int = at("frees")
    note: TextOrNull
    parts: tuple[PartDocument, ...]


class FolderDocument(JsonDocument):
    """A working folder as `crosscheck status --json` and `clean --json` print it."""

    home: Path
    cutoff: str
    kept_runs: list[str]
    bytes: int
    frees_bytes: int
    stores: tuple[StoreDocument, ...]

    @classmethod
    def of(cls, folder: Folder, holdings: Sequence[Holding]) -> "FolderDocument":
        """Return what a folder holds."""
        return cls(
            home=folder.home.path,
            cutoff=folder.retention.cutoff.isoformat(timespec="seconds"),
            kept_runs=sorted(folder.retention.kept),
            bytes=sum(holding.size for holding in holdings),
            frees_bytes=sum(holding.frees for holding in holdings),
            stores=tuple(map(StoreDocument.model_validate, holdings)),
        )


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts by plural noun in words: "1 reply, 2 batches"."""
    singular = {name: "reply" if name == "replies" else name[:-1] for name in counts}
    return ", ".join(f"{count:,} {singular[name] if count == 1 else name}" for name, count in counts.items())


def _location(holding: Holding, folder: Folder) -> str:
    inside = holding.path.is_relative_to(folder.home.path)
    return str(holding.path.relative_to(folder.home.path) if inside else holding.path)
