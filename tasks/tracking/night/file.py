"""A night as plain JSON: what is kept of it, from which every report is made, and how nights are found again."""

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.errors import DataError, did_you_mean
from tasks.scoring.report import Ratio
from tasks.scoring.significance import PairedTest
from tasks.settings.home import Home
from tasks.settings.night import Gate
from tasks.tracking.night.records import CONFIDENCE, Entry, Judged, Night, Past

_LATEST = re.compile(r"latest(?:~(\d+))?")
_SHOWN = 5


def place(home: Home, name: str) -> Path:
    """Return the file of a night; characters that not every file system takes are replaced."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return home.nights / f"{safe}.json"


def write(night: Night, home: Home) -> Path:
    """Write a night's file and return where it is."""
    file = place(home, night.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(as_object(night), ensure_ascii=False, indent=1), encoding="utf-8")
    return file


def read(file: Path) -> Night:
    """Read a night's file.

    Raises:
        DataError: it is none.
    """
    try:
        return _from_object(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise DataError(
            f"The night {file} cannot be read ({type(error).__name__}: {error}): it is damaged, or another release "
            "wrote it. Move it away to go on without it."
        ) from error


def all_nights(home: Home) -> tuple[Night, ...]:
    """Read every night there is, the latest first.

    Raises:
        DataError: one of them cannot be read.
    """
    nights = [read(file) for file in home.nights.glob("*.json")]
    return tuple(sorted(nights, key=lambda night: (night.started, night.name), reverse=True))


def find_night(reference: str, nights: Sequence[Night]) -> Night:
    """Return the night that a person means.

    Args:
        reference: its name or the beginning of it, as it is or as its file has it; or "latest", "latest~1", ...
        nights: the nights there are, the latest first.

    Raises:
        DataError: no night is meant, or several are.
    """
    if not nights:
        raise DataError(
            f'There is no night "{reference}": the deployment "nightly" has not ended one here yet.'
        )
    if latest := _LATEST.fullmatch(reference):
        back = int(latest[1] or 0)
        if back >= len(nights):
            raise DataError(f'There is no night "{reference}": there are {len(nights)} so far.')
        return nights[back]
    meant = [night for night in nights if reference in _names(night)] or [
        night for night in nights if reference and any(name.startswith(reference) for name in _names(night))
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        some = ", ".join(night.name for night in meant[:_SHOWN])
        more = f" and {len(meant) - _SHOWN:,} more" if len(meant) > _SHOWN else ""
        raise DataError(
            f'"{reference}" is the beginning of {len(meant)} nights: {some}{more}. Write more of it.'
        )
    raise DataError(
        f'There is no night "{reference}". {did_you_mean(reference, [night.name for night in nights])}'
    )


def _names(night: Night) -> tuple[str, str]:
    return night.name, place(Home(Path()), night.name).stem


def as_object(night: Night) -> dict[str, Any]:
    """Return a night as plain JSON; null is what is not known or does not apply."""
    return {
        "night": night.name,
        "green": not night.red,
        "verdict": night.verdict,
        "started": _iso(night.started),
        "finished": _iso(night.finished),
        "matrix": dict(night.matrix),
        "asked_again": night.asked_again,
        "gate": night.gate.model_dump(mode="json"),
        "evaluations": [_entry(each) for each in night.entries],
    }


def _entry(judged: Judged) -> dict[str, Any]:
    entry, found = judged.entry, judged.entry.comparison
    return {
        "benchmark": entry.benchmark,
        "backbone": entry.backbone,
        "pipeline": entry.pipeline,
        "standing": judged.standing,
        "problem": entry.problem or None,
        "continue_with": entry.continue_with or None,
        "not_ranked": entry.not_ranked or None,
        "notes": list(entry.notes),
        "run_id": entry.run_id,
        "rule": entry.rule or None,
        "ex": entry.ex and _ratio(entry.ex) | _ex_interval(entry),
        "unanswered": entry.unanswered,
        "failures": dict(entry.failures),
        "calls": entry.calls,
        "cached_calls": entry.cached_calls,
        "cost_usd": entry.cost_usd,
        "call_p50_seconds": entry.p50_s,
        "call_p95_seconds": entry.p95_s,
        "seconds": entry.seconds,
        "baseline": entry.baseline,
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
        "trend": [
            {"run_id": past.run_id, "started": _iso(past.started), **_ratio(past.ex)} for past in entry.trend
        ],
    }


def _from_object(data: Mapping[str, Any]) -> Night:
    return Night(
        name=data["night"],
        gate=Gate.model_validate(data["gate"]),
        entries=tuple(_judged(each) for each in data["evaluations"]),
        started=datetime.datetime.fromisoformat(data["started"]),
        finished=datetime.datetime.fromisoformat(data["finished"]),
        matrix=data["matrix"],
        asked_again=data["asked_again"],
    )


def _judged(data: Mapping[str, Any]) -> Judged:
    entry = Entry(
        benchmark=data["benchmark"],
        backbone=data["backbone"],
        pipeline=data["pipeline"],
        problem=data["problem"] or "",
        continue_with=data["continue_with"] or "",
        run_id=data["run_id"],
        rule=data["rule"] or "",
        unanswered=data["unanswered"],
        failures=data["failures"],
        calls=data["calls"],
        cached_calls=data["cached_calls"],
        cost_usd=data["cost_usd"],
        seconds=data["seconds"],
        not_ranked=data["not_ranked"] or "",
        baseline=data["baseline"],
        notes=tuple(data["notes"]),
        ex=data["ex"] and Ratio(data["ex"]["correct"], data["ex"]["total"]),
        p50_s=data["call_p50_seconds"],
        p95_s=data["call_p95_seconds"],
        comparison=None if data["p_value"] is None else _comparison(data),
        trend=tuple(
            Past(
                past["run_id"],
                datetime.datetime.fromisoformat(past["started"]),
                Ratio(past["correct"], past["total"]),
            )
            for past in data["trend"]
        ),
    )
    return Judged(entry, data["standing"], data["adjusted_p"])


def _comparison(data: Mapping[str, Any]) -> PairedTest:
    interval, left_out = data["interval"], data["left_out"]
    return PairedTest(
        questions=data["questions_compared"],
        right_a=data["right_before"],
        right_b=data["right"],
        fixed=tuple(data["fixed"]),
        broken=tuple(data["broken"]),
        p_value=data["p_value"],
        low=interval["low"],
        high=interval["high"],
        confidence=interval["confidence"],
        only_a=tuple(left_out["baseline"]),
        only_b=tuple(left_out["tonight"]),
    )


def _ex_interval(entry: Entry) -> dict[str, float | None]:
    low, high = entry.interval or (None, None)
    return {"low": low, "high": high, "confidence": CONFIDENCE}


def _ratio(ratio: Ratio) -> dict[str, float | None]:
    return {"correct": ratio.correct, "total": ratio.total, "value": ratio.value}


def _iso(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="seconds")
