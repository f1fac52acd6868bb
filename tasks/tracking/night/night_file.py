"""The JSON file of a nightly run, from which every report is made; finds a nightly run by name."""

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tasks.core.errors import DataError, did_you_mean
from tasks.core.files import atomic_write_text
from tasks.core.wording import shorten, storable
from tasks.scoring.significance import CONFIDENCE
from tasks.settings.home import Home
from tasks.tracking.night.night import Judged, Night

_LATEST = re.compile(r"latest(?:~(\d+))?")
_SHOWN = 5


def place(home: Home, name: str) -> Path:
    """Return the file of a nightly run; characters that not every file system accepts are replaced."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return home.nights / f"{safe}.json"


def write(night: Night, home: Home) -> Path:
    """Write the file of a nightly run and return its path."""
    file = place(home, night.name)
    atomic_write_text(file, storable(json.dumps(as_object(night), ensure_ascii=False, indent=1)))
    return file


def read(file: Path) -> Night:
    """Read the file of a nightly run.

    Raises:
        DataError: the file is invalid.
    """
    try:
        return _from_object(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise DataError(
            f"The nightly run {file} cannot be read ({type(error).__name__}: {error}): it is damaged, or another "
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


def as_object(night: Night) -> dict[str, Any]:
    """Return a nightly run as plain JSON; null for what is unknown or does not apply."""
    plain = _nights().dump_python(night, mode="json")
    return {
        "night": night.name,
        "green": night.colour == "Green",
        "colour": night.colour.lower(),
        "verdict": night.verdict,
        "started": _iso(night.started),
        "finished": _iso(night.finished),
        "missed": [_iso(moment) for moment in night.missed],
        "expected": night.expected and _iso(night.expected),
        "matrix": plain["matrix"],
        "asked_again": night.asked_again,
        "gate": plain["gate"],
        **({"keep": plain["keep"], "cleaned": night.cleaned} if night.keep else {}),
        "evaluations": [
            _evaluation(judged, entry["entry"])
            for judged, entry in zip(night.entries, plain["entries"], strict=True)
        ],
    }


def _evaluation(judged: Judged, plain: Mapping[str, Any]) -> dict[str, Any]:
    entry, found = judged.entry, judged.entry.comparison
    low, high = entry.interval or (None, None)
    own = {name: None if value == "" else value for name, value in plain.items() if name not in _RENAMED}
    return own | {
        "standing": judged.verdict,
        "ex": entry.ex and entry.ex.as_object() | {"low": low, "high": high, "confidence": CONFIDENCE},
        "corrected": entry.corrected and entry.corrected.as_object(),
        "call_p50_seconds": entry.p50_s,
        "call_p95_seconds": entry.p95_s,
        "difference": found and found.difference,
        "interval": found and {"low": found.low, "high": found.high, "confidence": found.confidence},
        "questions_compared": found and found.questions,
        "right_before": found and found.right_a,
        "right": found and found.right_b,
        "fixed": found and list(found.fixed),
        "broken": found and list(found.broken),
        "left_out": found and {"baseline": list(found.only_a), "tonight": list(found.only_b)},
        "p_value": found and found.p_value,
        "adjusted_p": judged.p_value,
        "decline": entry.decline
        and plain["decline"] | {"change": entry.decline.change, "adjusted_p": judged.trend_p},
        "trend": [
            {"run_id": past.run_id, "started": _iso(past.started), **past.ex.as_object()}
            for past in entry.trend
        ],
    }


_RENAMED = ("p50_s", "p95_s", "comparison")
"""Fields of an entry that its file has under other names."""


def _from_object(data: Mapping[str, Any]) -> Night:
    return _nights().validate_python(
        {
            **data,
            "name": data["night"],
            "cleaned": data.get("cleaned") or "",
            "entries": [
                {
                    "entry": _entry(each),
                    "verdict": each["standing"],
                    "p_value": each["adjusted_p"],
                    "trend_p": (each.get("decline") or {}).get("adjusted_p"),
                }
                for each in data["evaluations"]
            ],
        }
    )


def _entry(data: Mapping[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in data.items() if value is not None}
    known |= {"p50_s": data["call_p50_seconds"], "p95_s": data["call_p95_seconds"]}
    known["trend"] = [{**past, "ex": past} for past in data["trend"]]
    if data["p_value"] is not None:
        known["comparison"] = {
            **known,
            **data["interval"],
            "questions": data["questions_compared"],
            "right_a": data["right_before"],
            "right_b": data["right"],
            "only_a": data["left_out"]["baseline"],
            "only_b": data["left_out"]["tonight"],
        }
    return known


def _iso(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="seconds")


@cache
def _nights() -> TypeAdapter[Night]:
    return TypeAdapter(Night)
