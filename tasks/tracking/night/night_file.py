"""The JSON file of a nightly run, from which every report is made; finds a nightly run by name."""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasks.core.errors import DataError, did_you_mean, first_problem
from tasks.core.files import atomic_write_text
from tasks.core.wording import shorten, storable
from tasks.settings.home import Home
from tasks.tracking.night.night import Night

_LATEST = re.compile(r"latest(?:~(\d+))?")
_SHOWN = 5


def place(home: Home, name: str) -> Path:
    """Return the file of a nightly run; characters that not every file system accepts are replaced."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return home.nights / f"{safe}.json"


def write(night: Night, home: Home) -> Path:
    """Write the file of a nightly run and return its path."""
    file = place(home, night.name)
    atomic_write_text(file, storable(json.dumps(as_json(night), ensure_ascii=False, indent=1)))
    return file


def read(file: Path) -> Night:
    """Read the file of a nightly run.

    Raises:
        DataError: the file is invalid.
    """
    try:
        return _nights().validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        why = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"The nightly run {file} cannot be read ({why}): it is damaged, or another "
            "release wrote it. Move it away to go on without it."
        ) from error


def all_nights(home: Home) -> tuple[Night, ...]:
    """Read all nightly runs, the latest first.

    Raises:
        DataError: one of them cannot be read.
    """
    nights = [read(file) for file in home.nights.glob("*.json")]
    return tuple(sorted(nights, key=lambda night: (night.started, night.name), reverse=True))


def find_night(reference: str, nights: Sequence[Night]) -> Night:
    """Return the nightly run that a user refers to.

    Args:
        reference: its name or the beginning of it, as it is or as its file has it; or "latest", "latest~1", ...
        nights: all nightly runs, the latest first.

    Raises:
        DataError: no run or several runs match.
    """
    if not nights:
        raise DataError(f'There is no nightly run "{reference}": none has finished in this folder yet.')
    if latest := _LATEST.fullmatch(reference):
        back = int(latest[1] or 0)
        if back >= len(nights):
            raise DataError(f'There is no nightly run "{reference}": there are {len(nights)} so far.')
        return nights[back]
    meant = [night for night in nights if reference in _names(night)] or [
        night for night in nights if reference and any(name.startswith(reference) for name in _names(night))
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        some = shorten([night.name for night in meant], _SHOWN)
        raise DataError(
            f'"{reference}" is the beginning of {len(meant)} nightly runs: {some}. Write more of it.'
        )
    raise DataError(
        f'There is no nightly run "{reference}". {did_you_mean(reference, [night.name for night in nights])}'
    )


def _names(night: Night) -> tuple[str, str]:
    return night.name, place(Home(Path()), night.name).stem


def as_json(night: Night, *, brief: bool = False) -> dict[str, Any]:
    """Return a nightly run as plain JSON, null for what is unknown; `brief`: without its evaluations and settings."""
    fields = (
        {
            "name",
            "colour",
            "verdict",
            "started",
            "finished",
            "missed",
            "expected",
            "paid_usd",
            "paid_least_usd",
        }
        if brief
        else None
    )
    found: dict[str, Any] = _nights().dump_python(night, mode="json", include=fields)
    return found


@cache
def _nights() -> TypeAdapter[Night]:
    return TypeAdapter(Night)
