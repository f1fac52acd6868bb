"""Run times of right answers and their gold, measured in turns.

The measuring half runs inside a sandboxed worker, so nothing heavy is imported.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.database.database import Database
    from tasks.database.sandbox.session import Result, SqlSession
    from tasks.database.sandbox.workers import SqlWorkers


Trials = tuple[tuple[float, ...], ...]
"""Ratios t_gold / t_predicted by trial and repetition."""
MIN_REPEATS = 10
MAX_REPEATING_S = 3.0
"""Seconds per question after which no further repetition begins, provided that there are at least `MIN_REPEATS`."""


@dataclass(frozen=True, slots=True)
class Timings:
    """Measurements of one right answer against its gold."""

    fetched: Trials  # of executing and fetching
    executed: Trials  # of executing alone, up to the first row
    # virtual-machine steps of gold over prediction; None where either was not counted
    step_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of a run."""

    timings: Mapping[str, Timings]  # of the right answers that could be timed, by question id
    # the machine's highest load average per processor meanwhile; None where it is not known
    load: float | None = None


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """A right answer to be timed."""

    question_id: str
    database: "Database"
    gold_sql: str
    sql: str


def measure(session: "SqlSession", gold_sql: str, sql: str, repeats: int, timeout_s: float) -> Timings | None:
    """Time gold and prediction in turns inside one worker, and count their steps; None if either fails.

    Each is timed on a connection of its own, as in BIRD's evaluator: the first query of a connection reads the schema.
    """

    def time_query(query: str) -> "Result | None":
        session.close()
        result = session.run(query, timeout_s=timeout_s, keep_rows=0)
        return result if result.ok else None

    def ratio(gold_s: float, predicted_s: float) -> float:
        return max(gold_s, 1e-9) / max(predicted_s, 1e-9)  # a query may be too fast for the clock

    if time_query(gold_sql) is None or time_query(sql) is None:  # warms the page cache, too
        return None
    executed, fetched = [], []
    began = time.monotonic()
    for repeat in range(repeats):
        if repeat >= MIN_REPEATS and time.monotonic() - began > MAX_REPEATING_S:
            break
        # the second query finds a warmer cache, so gold and prediction take turns in being first
        if repeat % 2 == 0:
            gold, predicted = time_query(gold_sql), time_query(sql)
        else:
            predicted, gold = time_query(sql), time_query(gold_sql)
        if gold is None or predicted is None:
            return None
        executed.append(ratio(gold.executing, predicted.executing))
        fetched.append(ratio(gold.seconds, predicted.seconds))
    gold_steps, predicted_steps = [
        session.run(query, timeout_s=timeout_s, keep_rows=0, count_steps=True).steps
        for query in (gold_sql, sql)
    ]
    step_ratio = gold_steps / predicted_steps if gold_steps and predicted_steps else None
    return Timings(fetched=(tuple(fetched),), executed=(tuple(executed),), step_ratio=step_ratio)  # one trial


async def measure_efficiency(
    workers: "SqlWorkers",
    answers: Sequence[RightAnswer],
    *,
    trials: int = 3,
    repeats: int = 34,
    timeout_s: float,
    on_measured: Callable[[int], None] | None = None,
) -> Measured:
    """Time right answers one after the other; an answer that cannot be timed in each trial is left out of the result.

    Every trial measures all answers before the next one begins, so that the spread of the trials includes drift of the
    machine. Three trials repeat each query as often as BIRD's evaluator, about 100 times; among ten repetitions, no
    ratio could be an outlier (3 σ from the mean). Nothing else should run on the pool meanwhile. `on_measured` is
    called with the number of measured answers, over all trials.
    """
    from tasks.database.sandbox.workers import WorkerLost

    by_question: dict[str, list[Timings]] = {answer.question_id: [] for answer in answers}
    load = _load_average()
    limit_s = timeout_s * 2 * (repeats + 2)  # of two queries: warming up, the repetitions, counting steps
    done = 0
    for _ in range(trials):
        for answer in answers:
            job = (answer.database, answer.gold_sql, answer.sql, repeats, timeout_s)
            with suppress(WorkerLost):
                if timings := await workers.call(measure, *job, timeout_s=limit_s):
                    by_question[answer.question_id].append(timings)
            done += 1
            if on_measured:
                on_measured(done)
        load = max(filter(None, (load, _load_average())), default=None)
    complete = {name: timings for name, timings in by_question.items() if len(timings) == trials}
    return Measured({name: _join_trials(timings) for name, timings in complete.items()}, load)


def _join_trials(timings: Sequence[Timings]) -> Timings:
    return Timings(
        tuple(timing.fetched[0] for timing in timings),
        tuple(timing.executed[0] for timing in timings),
        timings[0].step_ratio,
    )


def _load_average() -> float | None:
    """Return the load average of the last minute per processor; None where the system has none."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return None
