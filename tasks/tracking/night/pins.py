"""Pinned baselines of nightly runs, with the reason of each: a file to which a line is added for every change."""

import datetime
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tasks.core.errors import DataError
from tasks.core.wording import storable
from tasks.settings.home import Home


@dataclass(frozen=True, slots=True)
class Pin:
    """One change of a baseline."""

    name: str  # of what is compared with it, "benchmark | backbone | pipeline"
    # the run that nightly runs are compared with from then on; None: again with the last that was not worse
    run_id: str | None
    reason: str  # why, in the user's words
    at: datetime.datetime  # when, in UTC
    by: str | None = None  # login name of the user; None where unknown

    @property
    def sentence(self) -> str:
        """Who pinned it, when and why."""
        by = f" by {self.by}" if self.by else ""
        return f"pinned on {self.at:%Y-%m-%d}{by}: {self.reason}"


def pins_file(home: Home) -> Path:
    """Return the file of a working folder's pinned baselines."""
    return home.nights / "baselines.jsonl"


def write_pin(pin: Pin, home: Home) -> None:
    """Add a change; it holds from the next nightly run on."""
    file = pins_file(home)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(storable(json.dumps(_pins().dump_python(pin, mode="json"), ensure_ascii=False)) + "\n")


def pin_history(home: Home) -> tuple[Pin, ...]:
    """Read all changes, the oldest first.

    Raises:
        DataError: the file is damaged.
    """
    file = pins_file(home)
    if not file.exists():
        return ()
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):  # text has further line separators
        try:
            found.append(_pins().validate_json(line))
        except ValidationError as error:
            raise DataError(
                f"{file}, line {number}, is no pinned baseline: remove the line, then pin the baseline again with "
                '"crosscheck baseline RUN --reason TEXT".'
            ) from error
    return tuple(found)


def current_pins(history: Iterable[Pin]) -> dict[str, Pin]:
    """Return the baselines that are pinned after all changes, by name."""
    latest = {pin.name: pin for pin in history}
    return {name: pin for name, pin in latest.items() if pin.run_id}


@cache
def _pins() -> TypeAdapter[Pin]:
    return TypeAdapter(Pin)
