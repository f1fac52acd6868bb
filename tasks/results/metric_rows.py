"""Every metric of two runs beside each other, as the summaries of the runs have them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import computed_field

from tasks.core.wording import DASH, MINUS, counted, counts, percent, points, signed
from tasks.documents.model import Table
from tasks.results.run_record import RunRecord
from tasks.scoring.metric import METRICS, SHARE, Better, Metric
from tasks.scoring.report import Ratio, Value

CAPTION = "over all scored questions, and not tested against chance"
DESCRIPTIVE = frozenset({"unit", "better"})


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One value of one metric in both runs."""

    name: str  # of the metric
    part: str  # which of its values; "" for the metric's own
    words: str  # the part as a person reads it
    title: str  # the metric's title
    unit: str  # its unit; of its own value only
    better: Better  # which way is better; None where neither is
    # a, b: the values; None where the metric does not apply to a run, or the run has no summary
    a: Value | None
    b: Value | None

    @computed_field
    @property
    def difference(self) -> float | None:
        """Value of B minus value of A; of shares, as a share; None where one is unknown."""
        a, b = (value.value if isinstance(value, Ratio) else value for value in (self.a, self.b))
        return None if a is None or b is None else b - a

    @property
    def is_share(self) -> bool:
        """Whether it is a share in 0..1."""
        values = [value for value in (self.a, self.b) if value is not None]
        return (bool(self.part) or self.unit == SHARE) and all(isinstance(value, Ratio) for value in values)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text: what, A, B, B minus A, which way is better."""
        change = DASH
        if self.difference is not None:
            integers = isinstance(self.a, int) and isinstance(self.b, int)
            change = (
                points(self.difference)
                if self.is_share
                else signed(self.difference, "d" if integers else ".2f")
            )
        named = f"{self.title}: {self.words}" if self.part else self.title
        return named, self._text(self.a), self._text(self.b), change, self.better or ""

    def _text(self, value: Value | None) -> str:
        if isinstance(value, Ratio):
            return f"{percent(value)} ({counts(value)})" if self.is_share else f"{value.value or 0:,.2f}"
        return DASH if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def metric_rows(a: RunRecord, b: RunRecord) -> tuple[MetricRow, ...]:
    """Return the values of every registered metric, and of a user's own metrics that a run has.

    There are none of runs that scored other questions: the summaries have the values over all questions of each run.
    A metric that applies to neither run has no row, and neither has a count that is 0 or a share of nothing in both.
    """
    if a.scored_rows.keys() != b.scored_rows.keys():
        return ()
    rows = []
    for name, declared in _metrics(a, b).items():
        data_of_runs = [run.metrics.get(name) for run in (a, b)]
        title, unit, better = name, SHARE, None
        if declared is not None:
            title, unit, better = declared.title, declared.unit, declared.better
        for data in data_of_runs:
            if declared is None and isinstance(data, Mapping):
                unit, better = data.get("unit", unit), data.get("better", better)
        words = declared.words if declared else {}
        values_a, values_b = (dict(_values(data)) for data in data_of_runs)
        rows += [
            MetricRow(
                name=name,
                part=part,
                words=" ".join(words.get(key, key) for key in part.split(" ")),
                title=title,
                unit=unit,
                better=better,
                a=values_a.get(part),
                b=values_b.get(part),
            )
            for part in dict.fromkeys([*values_a, *values_b])
            if _counts(values_a.get(part)) or _counts(values_b.get(part))
        ]
    return tuple(rows)


def as_table(rows: Sequence[MetricRow], *, equal: bool = True) -> Table:
    """Return the rows as a table.

    Args:
        rows: the rows.
        equal: whether those without a difference are in it; otherwise the caption counts them.
    """
    shown = [row for row in rows if equal or row.difference != 0]
    left_out = f"; {counted(len(rows) - len(shown), 'value')} equal in both" if len(shown) < len(rows) else ""
    header = ("", "A", "B", f"B\N{NO-BREAK SPACE}{MINUS}\N{NO-BREAK SPACE}A", "better")
    return Table("Metrics", header, tuple(row.cells for row in shown), f"{CAPTION}{left_out}", keep=4)


def _counts(value: Value | None) -> bool:
    """Return whether a value says anything: no count of 0, no share of nothing."""
    return bool(value.total if isinstance(value, Ratio) else value)


def _metrics(a: RunRecord, b: RunRecord) -> dict[str, Metric | None]:
    """Return metrics by name in the summary's order; those of a user's file, which is not imported, are None."""
    registered = sorted(map(METRICS.get, METRICS.names()), key=lambda metric: metric.order)
    metrics: dict[str, Metric | None] = {metric.name: metric for metric in registered}
    for run in (a, b):
        names = run.settings_of("benchmark").get("metrics") or ()
        for name in names:
            metrics.setdefault(str(name).rpartition(":")[2], None)
    return metrics


def _values(data: Any, part: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the values in a metric's object of the summary: shares, numbers, and the length of a list of questions."""
    if isinstance(data, bool):
        return
    if isinstance(data, int | float):
        yield part, data
    elif isinstance(data, list) and not part:
        yield part, len(data)
    elif isinstance(data, Mapping):
        inner = {key: value for key, value in data.items() if key not in DESCRIPTIVE}
        if {"total", "value"} <= inner.keys():
            correct = inner.pop("correct", None)
            yield part, Ratio(inner.pop("sum", correct), inner.pop("total"))
            del inner["value"]
        for key, value in inner.items():
            yield from _values(value, part if key == "value" else f"{part} {key}".strip())
