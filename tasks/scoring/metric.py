"""How a metric is declared: one function with its title, unit, and which way is better; CONTRIBUTING.md has an example.

The JSON and terminal summaries, MLflow, the table of predictions and, through the summary, the warehouse show every
metric that applies.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from tasks.core.errors import ConfigurationError
from tasks.core.registry import Registry, described, is_shipped, of_type, warn_once
from tasks.core.wording import DASH, amount, counted, counts, percent
from tasks.scoring.scores import Accuracy, Measurement, QuestionScore, Ratio, Value, accuracy

if TYPE_CHECKING:
    from tasks.database.schema import Schema

log = logging.getLogger(__name__)

Better = Literal["higher", "lower"] | None
HEADLINE = "headline"
"""Key of a metric's object in the JSON summary: its figures for the first screen and nightly runs, by title."""
SHARE = "share"
_COUNTS = ("questions", "queries", "rows", "columns", "tables", "joins", "characters", "tokens", "calls")
UNITS = (SHARE, *_COUNTS, "seconds", "milliseconds", "USD", "points")
"""Units of metrics. A share is a `Ratio`, which is printed in percent."""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """What metrics are computed from."""

    rule: str  # the headline rule
    rows: Sequence[QuestionScore]  # one per selected question, in the benchmark's order
    schemas: Mapping[str, "Schema"]  # full schema by database
    exact_match: bool = False  # whether Spider's exact set match is scored for this benchmark
    # whether schema links are scored of missing databases, too: that needs only their schemas
    link_all: bool = False
    # what was measured by executing queries again, by the metric's name
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scored(self) -> tuple[QuestionScore, ...]:
        """The scored questions: the denominator of every share of "all"."""
        return tuple(row for row in self.rows if row.executable)

    @property
    def link_rows(self) -> tuple[QuestionScore, ...]:
        """The questions whose schema links are scored."""
        return tuple(self.rows) if self.link_all else self.scored

    @property
    def score(self) -> Accuracy:
        """Execution accuracy of the final answers under the headline rule."""
        return accuracy(self.scored, self.rule)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric."""

    name: str  # in the JSON summary, in MLflow and as a column of the predictions
    title: str  # in the terminal's summary
    measure: Callable[[ScoredRun], Measurement | None]  # computes it; None: it does not apply to this run
    unit: str = SHARE  # one of `UNITS`
    better: Better = "higher"  # which way is better; None where neither is
    order: int = 100  # place in the summary; those of lower order come first
    # names in comparisons for the keys of its object in the summary; a key without one is its own name
    words: Mapping[str, str] = field(default_factory=dict)

    def of(self, run: ScoredRun) -> Measurement | None:
        """Compute the metric; None where it does not apply."""
        measurement: Measurement | None = of_type(
            Measurement | None, self.measure(run), f"{self.name} returned"
        )
        if measurement is None:
            return None
        lines = measurement.lines
        if lines is None:
            lines = (f"{self.title}: {in_words(measurement.value, self.unit)}",)
        data = measurement.data
        if data is None:  # the metric has nothing but its value
            value = measurement.value
            facts = _facts(value) if isinstance(value, Ratio) else {"value": value}
            data = {**facts, "title": self.title, "unit": self.unit, "better": self.better}
        elif measurement.headline:
            data = {**data, HEADLINE: {title: _facts(value) for title, value in measurement.headline.items()}}
        return replace(measurement, lines=lines, data=data)


def _facts(value: Value | None) -> Any:
    return asdict(value) if isinstance(value, Ratio) else value


def in_words(value: Value | None, unit: str) -> str:
    """Write a value of a metric.

    >>> in_words(Ratio(1, 4), SHARE), in_words(Ratio(90, 4), "characters"), in_words(7, "queries")
    ('25.00 % (1 of 4)', '22.50 characters (90 / 4)', '7 queries')
    """
    if isinstance(value, Ratio):
        if unit == SHARE:
            return f"{percent(value)} ({counts(value)})"
        mean_of = f"{amount(value.correct)} / {amount(value.total)}"
        return DASH if value.value is None else f"{value.value:,.2f} {unit} ({mean_of})"
    return DASH if value is None else f"{amount(value)} {unit}"


def headlines(metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return the figures that the first screen and the page of a nightly run show, by title, from a record's metrics.

    A metric with headlines gives these, a metric that has nothing but its value gives its value.

    >>> mean = {"correct": 6436.1, "total": 100, "value": 64.361}
    >>> headlines({"efficiency": {"load": 0.1, "headline": {"VES": mean, "timed": 12}}})
    {'VES': '64.36 (mean over 100 questions)', 'timed': '12'}
    >>> headlines({"sql_length": {"value": 7, "title": "SQL length", "unit": "characters", "better": "lower"}})
    {'SQL length': '7 characters'}
    """
    figures: dict[str, str] = {}
    for name, data in metrics.items():
        if not isinstance(data, Mapping):
            continue
        if isinstance(data.get(HEADLINE), Mapping):
            figures |= {str(title): _figure(value) for title, value in data[HEADLINE].items()}
        elif {"value", "unit", "better"} <= data.keys():  # as `Metric.of` writes it
            value = Ratio.of(data) if "total" in data else data["value"]
            figures[str(data.get("title", name))] = in_words(value, data["unit"])
    return figures


def _figure(value: Any) -> str:
    """Write a headline; a user's own metric may give anything."""
    if (
        isinstance(value, Mapping)
        and isinstance(value.get("value"), float)
        and isinstance(value.get("total"), int)
    ):
        return f"{value['value']:,.2f} (mean over {counted(value['total'], 'question')})"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


BUILT_IN = "tasks.scoring.metrics"
METRICS: Registry[Metric] = Registry("metric", package=BUILT_IN, group="crosscheck.metrics", base=Metric)


def metric(
    title: str,
    *,
    unit: str = SHARE,
    better: Better = "higher",
    order: int = 100,
    words: Mapping[str, str] | None = None,
) -> Callable[[Callable[[ScoredRun], Measurement | None]], Metric]:
    """Return a decorator that makes a metric of a function and names it as the function; see `Metric` for the rest."""
    if unit not in UNITS:
        percent_sign = f' A value in percent is a Ratio with the unit "{SHARE}".' if "%" in unit else ""
        raise ConfigurationError(
            f'There is no unit "{unit}".{percent_sign} Units of metrics: {", ".join(UNITS)}.'
        )

    def decorate(measure: Callable[[ScoredRun], Measurement | None]) -> Metric:
        name = measure.__name__
        declared = Metric(name, title, measure, unit=unit, better=better, order=order, words=words or {})
        is_built_in = measure.__module__.startswith(BUILT_IN)
        return METRICS.register(name)(declared) if is_built_in else declared

    return decorate


def find_metrics(names: Sequence[str] = ()) -> tuple[Metric, ...]:
    """Return every registered metric and those named, also as `path/to/file.py:name`, in the order of the summary."""
    metrics: dict[str, Metric] = {}
    for name in dict.fromkeys((*METRICS.usable(), *names)):
        registered = METRICS.get(name)
        if not isinstance(registered, Metric):
            raise ConfigurationError(
                f'The metric "{name}" is a {type(registered).__name__}: put @metric("its title") above its function.'
            )
        if metrics.setdefault(registered.name, registered) is not registered:
            problem = f'The metric "{name}" has the name of another, "{registered.name}": rename it.'
            if name in names:
                raise ConfigurationError(problem)
            warn_once(f"{problem} It is left out.")
    return tuple(sorted(metrics.values(), key=lambda metric: metric.order))


def _demand_numbers(measurement: Measurement) -> None:
    """Raise an error for what a record cannot hold: a value that is no number, other data that are no plain JSON."""
    series = chain.from_iterable(measurement.series.values())
    for value in (measurement.value, *measurement.further.values(), *series):
        of_type(Value | None, value, "a Measurement has")
    json.dumps([measurement.data, dict(measurement.by_question)])


def measure(run: ScoredRun, metrics: Sequence[Metric] | None = None) -> dict[str, Measurement | None]:
    """Compute metrics; None: every registered one.

    If a user's own metric raises, its line in the summary says that it is unknown, and why: an evaluation that was paid
    for is not lost.
    """
    measurements: dict[str, Measurement | None] = {}
    chosen = find_metrics() if metrics is None else metrics
    for metric in chosen:
        is_own = not is_shipped(metric.measure)
        try:
            measurements[metric.name] = measurement = metric.of(run)
            if measurement and is_own:
                _demand_numbers(measurement)
        except (Exception, SystemExit) as error:
            if not is_own:
                raise
            log.warning("the metric %s failed", metric.name, exc_info=True)
            why = described(error)
            line = f"{metric.title}: unknown, {why}"
            measurements[metric.name] = Measurement(data={"error": why}, lines=(line,))
    return measurements
