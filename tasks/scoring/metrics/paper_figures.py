"""The figures that DAC and SEA-SQL report of themselves, by name, where they took part."""

from collections.abc import Iterator, Mapping

from tasks.core.wording import counts, percent
from tasks.documents.model import Table
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.papers.dac_figures import dac_figures
from tasks.scoring.papers.sea_figures import sea_figures
from tasks.scoring.report import Measurement, Ratio, Value

HEADLINE = {
    "dac/linking_tables/macro_f1": "DAC: tables linked, macro F1",
    "dac/linking_columns/macro_f1": "columns linked, macro F1",
    "dac/parsed_skeleton": "skeletons parsed right",
    "sea/execution_adjustment/failing_before": "SEA-SQL: SQL that failed to execute, before",
    "sea/execution_adjustment/failing_after": "after adjustment",
}
"""The figures of every summary; `--details` has all."""


@METRICS.register("figures")
@metric("What the systems report of themselves", better=None, order=40)
def figures(run: ScoredRun) -> Measurement:
    """Report DAC's and SEA-SQL's own figures; what does not apply is absent."""
    rows = run.report.rows
    found = dac_figures(rows, run.rule, run.schemas) | sea_figures(rows, run.rule)
    return Measurement(
        further=found,
        data={
            name: value.as_object() if isinstance(value, Ratio) else value for name, value in found.items()
        },
        lines=tuple(_lines(found)),
        tables=(_table(found),) if found else (),
    )


def _lines(found: Mapping[str, Value]) -> Iterator[str]:
    """Yield a line per system."""
    for system in ("dac/", "sea/"):
        parts = [
            f"{text} {_written(name, value)}"
            for name, text in HEADLINE.items()
            if name.startswith(system) and (value := found.get(name)) is not None
        ]
        if parts:
            yield ", ".join(parts)


def _written(name: str, value: Value) -> str:
    if isinstance(value, Ratio):  # the numerator of a macro figure is a sum of shares, no count
        return (
            f"{percent(value)} (mean over {value.total:,g} questions)" if "/macro_" in name else counts(value)
        )
    return f"{value:.2f}"


def _table(found: Mapping[str, Value]) -> Table:
    def cells(value: Value) -> tuple[str, str]:
        if isinstance(value, Ratio):
            return percent(value), counts(value)
        return ("", f"{value:,}") if isinstance(value, int) else (f"{value:.3f}", "")

    return Table(
        "What the systems report of themselves",
        ("figure", "value", "questions"),
        tuple((name, *cells(value)) for name, value in found.items()),
    )
