"""Measurements of judges, which displays of their opinions name: one file per judge in the working folder."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tasks.core.files import atomic_write_text
from tasks.scoring.report import Ratio
from tasks.settings.home import Home


def judge_key(identity: Mapping[str, Any]) -> str:
    """Return the key of a judge: a digest of everything that its opinions depend on, besides the answer."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:32]


def keep_measured(home: Home, key: str, facts: Mapping[str, Any]) -> None:
    """Keep what was measured of a judge, in place of an earlier measurement.

    Raises:
        OSError: it cannot be written.
    """
    home.judges.mkdir(exist_ok=True)
    atomic_write_text(home.judges / f"{key}.json", json.dumps(facts, indent=1))


def measured_accuracy(home: Home, key: str) -> Ratio | None:
    """Return the accuracy of a judge that was measured here; None if it was not."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads((home.judges / f"{key}.json").read_text(encoding="utf-8"))["judge"]["accuracy"]
        return Ratio(found["correct"], found["total"])
    return None
