"""What the public interface returns: frozen records, with their tables as pandas frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from tasks.results.run_record import RunRecord, json_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from flows.evaluate.answering import Answered
    from flows.matrix.matrix import Sweep as Swept
    from tasks.results import comparison


@dataclass(frozen=True)
class Sweep:
    """Every backbone with every pipeline and combination of settings.

    Attributes:
        id: the tag `sweep` of its runs; "" if it was only estimated.
        runs: the cells' runs, in order; None where a cell has none.
        estimated_usd: estimated cost of all cells; None if that of one is unknown.
        spent_usd: cost of the paid calls; None if unknown.
        details: the object that `crosscheck sweep --json` prints.
    """

    id: str
    runs: tuple[RunRecord | None, ...]
    estimated_usd: float | None
    spent_usd: float | None
    details: Mapping[str, Any] = field(repr=False)
    _headline: str = field(repr=False)

    @classmethod
    def of(cls, swept: "Swept") -> "Sweep":
        """Return the record of a sweep."""
        from flows.pages.matrix import headline

        details = json_of(swept.document)
        runs = tuple(done.evaluated for done in swept.cells)
        return cls(swept.id, runs, swept.estimated_usd, swept.spent_usd, details, headline(swept))

    def __str__(self) -> str:
        return self._headline

    @property
    def table(self) -> "DataFrame":
        """A row per cell: score with its interval, standing against the best, cost and estimate, and problems."""
        rows = [
            {
                "backbone": cell["backbone"],
                "pipeline": cell["pipeline"],
                "settings": ", ".join(cell["set"]),
                **{name: getattr(run, name, None) for name in ("correct", "total", "ex", "low", "high")},
                "against_best": cell["against_best"],
                "cost_usd": run.cost.cost_usd if run else None,
                "estimated_calls": cell["estimate"]["calls"],
                "estimated_usd": cell["estimate"]["cost_usd"],
                "run_id": run.run_id if run else None,
                "problem": cell["problem"],
            }
            for cell, run in zip(self.details["cells"], self.runs, strict=True)
        ]
        return frame(rows, list(rows[0]))

    def _repr_html_(self) -> str:
        return str(self.table.to_html(index=False))


@dataclass(frozen=True)
class DatabaseAnswer:
    """Answer to a question on a database of one's own.

    Attributes:
        sql: the SQL; None if the model gave none.
        error: why there is no result; "" if there is one.
        row_count: rows of the whole result; None if there is none.
        columns: names of the result's columns.
        rows: the first rows of the result.
    """

    sql: str | None
    error: str
    row_count: int | None
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...] = field(repr=False)

    @classmethod
    def of(cls, answered: "Answered") -> "DatabaseAnswer":
        """Return the record of an answered question."""
        outcome, execution = answered.outcome, answered.execution
        error = ""
        if outcome.failure:
            error = outcome.failure.message
        elif execution is None:
            error = "The model's replies held no SQL."
        elif not execution.ok:
            error = execution.error or execution.status
        if execution is None:
            return cls(outcome.sql, error, None, (), ())
        rows = tuple(tuple(row) for row in execution.rows)
        return cls(outcome.sql, error, execution.row_count, tuple(execution.columns), rows)

    @property
    def table(self) -> "DataFrame":
        """The rows as a frame."""
        from pandas import DataFrame

        return DataFrame(list(self.rows), columns=list(self.columns))


@dataclass(frozen=True)
class Comparison:
    """Whether run B is better than run A, on the questions that both have scored.

    Attributes:
        difference: B's execution accuracy minus A's, in 0..1.
        interval: bootstrap interval of the difference, 95 %.
        p_value: of the exact McNemar test.
        better: "A" or "B" if the difference is significant, else None.
        verdict: all of it in a sentence.
        details: the object that `crosscheck compare --json` prints.
    """

    difference: float
    interval: tuple[float, float]
    p_value: float
    better: Literal["A", "B"] | None
    verdict: str
    details: Mapping[str, Any] = field(repr=False)
    _found: "comparison.Comparison" = field(repr=False)

    @classmethod
    def of(cls, tested: "comparison.Comparison") -> "Comparison":
        """Return the record of a comparison."""
        details, result = json_of(tested), tested.paired
        interval = (result.low, result.high)
        return cls(
            result.difference, interval, result.p_value, result.better, result.verdict, details, tested
        )

    def __str__(self) -> str:
        return self.verdict

    def _repr_html_(self) -> str:
        flips = self.flips[["question_id", "change", "database", "difficulty"]]
        return f"<p>{escape(self.verdict)}</p>{flips.to_html(index=False)}"

    @property
    def flips(self) -> "DataFrame":
        """Questions that one run has right and the other wrong, with both SQLs and the gold's."""
        columns = ("question_id", "change", "database", "difficulty", "question", "gold_sql")
        rows = [
            {name: flip[name] for name in columns} | {"sql_a": flip["a"]["sql"], "sql_b": flip["b"]["sql"]}
            for flip in self.details["flips"]
        ]
        return frame(rows, (*columns, "sql_a", "sql_b"))

    @property
    def page(self) -> str:
        """The comparison as a self-contained HTML page."""
        from tasks.documents.html import html
        from tasks.pages.comparison import comparison_document

        return html(comparison_document(self._found))


def frame(objects: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> "DataFrame":
    """Return objects as a frame in which what is unknown is `<NA>`, never 0 or NaN."""
    from pandas import NA, DataFrame

    table = DataFrame(list(objects), columns=list(columns), dtype=object)
    # Whole floats, such as costs of 0.0, would become integers.
    floats = [name for name in table if any(isinstance(value, float) for value in table[name])]
    table = table.convert_dtypes().astype(dict.fromkeys(floats, "Float64"))
    for name in table.select_dtypes(object):  # also where all of a column is unknown
        table[name] = table[name].where(table[name].notna(), NA)
    return table
