r"""A hundred nightly runs as a team leader sees them: noise, a drift, a loss, missed nights. A script, not a test:

    python tests/benchmarks/hundred_nights.py FOLDER [--nights 100] [--questions 113]

It simulates the answers of three pipelines; warehouse, baselines, verdicts, files and pages are the real ones. One
pipeline has noise only, one drifts by 0.5 points a night from the 70th night on, one loses 12 points in the 85th night,
which are accepted five nights later by a pinned baseline. It prints the colours of all nights, writes the working folder
to FOLDER, and the page of the latest night to FOLDER/night.html.
"""

import argparse
import datetime
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.scoring.build_report import build_report
from tasks.scoring.report import Ratio, Report
from tasks.settings.home import Home
from tasks.settings.night import Gate
from tasks.tracking.evaluation import NIGHT
from tasks.tracking.night.baseline import Baselines, compared, found_worse, named_run
from tasks.tracking.night.entry import Entry
from tasks.tracking.night.night import Night, judge
from tasks.tracking.night.night_file import all_nights, write
from tasks.tracking.night.page import render
from tasks.tracking.night.pins import Pin, current_pins, pin_history, write_pin
from tasks.tracking.summary import summary
from tasks.tracking.warehouse.runs import Warehouse
from tasks.tracking.warehouse.stored import StoredRun
from tests.tasks.tracking.comparison_samples import FINAL, score
from tests.tasks.tracking.samples import make_run

PIPELINES = ("steady", "drifting", "losing")
DRIFTS, LOSES, ACCEPTED = 70, 85, 90
MISSED = (40, 41, 60)
GATE = Gate()
DAY = datetime.timedelta(days=1)


def right_answers(pipeline: str, night: int, questions: int, random: np.random.Generator) -> np.ndarray:
    """Return which questions are right: 8 % by chance, of the others 60 % less what was lost."""
    lost = (
        0.5 * max(0, night - DRIFTS)
        if pipeline == "drifting"
        else 12.0 * (pipeline == "losing" and night >= LOSES)
    )
    rates = np.where(np.arange(questions) < questions * (0.6 - lost / 100), 1.0, 0.0)
    rates[-int(0.08 * questions) :] = 0.5
    return random.random(questions) < rates


def stored_run(pipeline: str, started: datetime.datetime, right: Sequence[bool]) -> tuple[StoredRun, Report]:
    """Return a run with these answers."""
    rows = tuple(score(number, bool(each), "a", (FINAL,)) for number, each in enumerate(right))
    name = f"{started:%Y-%m-%dT%H:%MZ}"
    run = make_run(
        run_id=f"{started:%Y%m%d-%H%M%S}-{PIPELINES.index(pipeline):06x}",
        started=started, benchmark="demo", backbone="offline", pipeline=pipeline, questions_in_benchmark=len(right), tags={NIGHT: name},
    )  # fmt: skip
    return StoredRun(run, "complete", {}, rows), build_report(rows, rule=run.rule, schemas={})


def main() -> None:
    """Simulate the nights."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--questions", type=int, default=113)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    home, random = Home(given.folder), np.random.default_rng(1)
    warehouse = Warehouse(home.warehouse)
    first = (
        datetime.datetime.now(datetime.UTC).replace(hour=1, minute=30, second=0, microsecond=0)
        - given.nights * DAY
    )
    missed: list[datetime.datetime] = []
    for number in range(1, given.nights + 1):
        started = first + number * DAY
        if number in MISSED:
            missed.append(started)
            continue
        before, pins = all_nights(home), current_pins(pin_history(home))
        named = {name: named_run(str(pin.run_id), warehouse) for name, pin in pins.items()}
        entries = []
        for minutes, pipeline in enumerate(PIPELINES):
            moment = started + datetime.timedelta(minutes=10 * minutes)
            stored, report = stored_run(
                pipeline, moment, right_answers(pipeline, number, given.questions, random)
            )
            warehouse.finish(stored.run, report, summary(stored.run, report))
            cost = report.cost
            entry = Entry(
                "demo", "offline", pipeline, run_id=stored.run.run_id, ex=Ratio(report.score.correct, report.score.total), calls=cost.calls,
                cached_calls=cost.cached_calls, cost_usd=cost.cost_usd, p50_s=cost.p50_s, p95_s=cost.p95_s, seconds=420.0,
            )  # fmt: skip
            baselines = Baselines(named, pins, found_worse(before, warehouse.runs()))
            entries.append(compared(entry, baselines, warehouse, GATE))
        end = started + datetime.timedelta(minutes=31)
        night = Night(f"{started:%Y-%m-%dT%H:%MZ}", GATE, judge(GATE, entries), started, end, {
            "benchmarks": ["demo"], "backbones": ["offline"], "pipelines": list(PIPELINES),
        })  # fmt: skip
        night = replace(night, missed=tuple(missed), expected=started + DAY)
        missed = []
        write(night, home)
        verdicts = ", ".join(
            f"{each.entry.pipeline} {each.verdict}" for each in night.entries if each.colour != "Green"
        )
        print(f"{number:4} {night.name} {night.colour:6} {verdicts}", flush=True)
        if number == ACCEPTED and entries[-1].run_id:
            write_pin(Pin(entries[-1].name, entries[-1].run_id, "Costs half: agreed", started, "ann"), home)
    (given.folder / "night.html").write_text(render(all_nights(home)[0], warehouse), encoding="utf-8")


if __name__ == "__main__":
    main()
