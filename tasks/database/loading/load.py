"""Copies one SQLite database into a database of another engine."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tasks.core.errors import ConfigurationError, DataError
from tasks.database.database import Database
from tasks.database.engine import engine_of
from tasks.database.loading.plan import VERSION, Invalid, Source
from tasks.database.loading.target import TARGETS, Mark
from tasks.database.location import Location

Outcome = Literal["loaded", "replaced", "unchanged", "would be loaded", "would be replaced"]


@dataclass(frozen=True, slots=True)
class LoadChoice:
    """How databases are copied."""

    # what becomes of values that do not fit their column's declaration, as in `tasks.database.loading.plan`
    invalid: Invalid = "text"
    replace: bool = False  # whether tables that no copy has created are dropped
    dry_run: bool = False  # whether nothing is written
    reader: str | None = None  # role that may read the copies afterwards; None: none is granted anything


@dataclass(frozen=True, slots=True)
class Loaded:
    """A database that was copied, or needed not be."""

    database: str
    to: str  # where the copy is
    outcome: Outcome  # what was done
    tables: int  # how many
    rows: int | None  # how many; None where the copy was there already
    notes: tuple[str, ...]  # what differs from the source's declarations
    seconds: float  # that it took


def load_database(
    database: Database, to: Location, choice: LoadChoice, progress: Callable[[int, int], None]
) -> Loaded:
    """Copy a database, unless the same copy is there already.

    `progress` is called with the rows that were sent, and those of all tables.

    Raises:
        ConfigurationError: the engine cannot be written, or the database holds tables that no copy has created.
        DataError: the server refuses.
    """
    if not engine_of(database.location).copied:
        raise ConfigurationError(
            f'Database "{database.id}" is {database.location}: only SQLite databases are copied.'
        )
    started = time.monotonic()
    if to.engine not in TARGETS.names():
        raise ConfigurationError(
            f"{to}: databases are copied into {', '.join(TARGETS.names())}, not into {to.engine}."
        )
    with TARGETS.get(to.engine)(to) as target:
        try:
            held = target.held()
            fingerprint = _fingerprint(database, target.dialect, choice.invalid)
            mark = held.mark if held else None
            if (
                held
                and mark
                and mark.complete
                and mark.fingerprint == fingerprint
                and set(mark.tables) <= {*held.tables}
            ):
                if choice.reader and not choice.dry_run:
                    target.grant(choice.reader)
                taken = time.monotonic() - started
                return Loaded(database.id, str(to), "unchanged", len(mark.tables), None, (), taken)
            if held and held.foreign and not choice.replace:
                raise ConfigurationError(
                    f"{to} holds tables that `crosscheck load` has not created: {', '.join(held.foreign[:5])}"
                    f"{', ...' if len(held.foreign) > 5 else ''}. Name another database, or drop them with --replace."
                )
            with Source(database, target.dialect, choice.invalid) as source:
                plan = source.plan()
                notes = plan.notes
                replaced = bool(held and held.tables)
                if not choice.dry_run:
                    sent = 0

                    def count(rows: int) -> None:
                        nonlocal sent
                        sent += rows
                        progress(sent, plan.rows)

                    made = tuple(table.name for table in plan.tables)
                    notes += target.write(source, plan, Mark(fingerprint, True, made), held, count)
                    if choice.reader:
                        target.grant(choice.reader)
        except target.errors as error:
            raise DataError(f"{to}: {target.rights(error)}") from error
    done: Outcome = "replaced" if replaced else "loaded"
    if choice.dry_run:
        done = "would be replaced" if replaced else "would be loaded"
    taken = time.monotonic() - started
    return Loaded(database.id, str(to), done, len(plan.tables), plan.rows, notes, taken)


def _fingerprint(database: Database, dialect: str, invalid: Invalid) -> str:
    content = [VERSION, database.digest, database.schema.digest, dialect, invalid]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
