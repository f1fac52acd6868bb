"""The part of the public interface that reads the results of runs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flows.api.folder import Folder
from flows.api.records import Comparison, Run, frame

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, kw_only=True)
class Results(Folder):
    """The results in a working folder."""

    def compare(self, a: Run | str, b: Run | str, *, rule: str | None = None) -> Comparison:
        """Test whether run B is better than run A, as `crosscheck compare` does.

        >>> both = crosscheck.compare(run, run)
        >>> both.difference, both.p_value, both.better, len(both.flips)
        (0.0, 1.0, None, 0)

        Args:
            a: a run, or what names one: an id, the beginning of it, "latest", "latest~1".
            b: likewise.
            rule: comparison rule; None: the headline rule of both.

        Raises:
            CrosscheckError: there is no such run, or the two cannot be compared.
        """
        from tasks.tracking.comparison.compare import compare

        return Comparison.of(compare(self._read(a), self._read(b), rule=rule))

    def runs(self) -> "DataFrame":
        """Return all runs, newest first; the columns are those of the table `runs` (`crosscheck query --schema`).

        >>> crosscheck.runs().pipeline.iloc[-1]
        'few-shot'

        Raises:
            CrosscheckError: there is no run yet.
        """
        return self.query("SELECT * FROM runs ORDER BY started DESC, run_id DESC")

    def predictions(self, run: Run | str = "latest") -> "DataFrame":
        """Return the questions of a run in the benchmark's order, with the final SQL and its verdict.

        >>> crosscheck.predictions(run)[["question_id", "status"]].iloc[0].to_list()
        ['1', 'ok']

        Raises:
            CrosscheckError: there is no such run.
        """
        name = self._find(run).replace("'", "''")
        return self.query(f"SELECT * FROM questions WHERE run_id = '{name}' ORDER BY position")

    def query(self, sql: str) -> "DataFrame":
        """Run SQL (DuckDB's dialect) on the results of all runs; it can change nothing and read nothing else.

        >>> crosscheck.query("SELECT pipeline FROM runs ORDER BY started LIMIT 1").pipeline.to_list()
        ['few-shot']

        Raises:
            CrosscheckError: there is no run yet, or DuckDB refuses the query.
        """
        from tasks.tracking.warehouse.views import query

        table = query(self._home.warehouse, sql)
        return frame([dict(zip(table.columns, row, strict=True)) for row in table.rows], table.columns)

    @staticmethod
    def available(kind: Literal["benchmark", "backbone", "pipeline"]) -> list[str]:
        """Return the names that come with Crosscheck or that installed packages offer.

        >>> "rsl-sql" in Crosscheck.available("pipeline")
        True
        """
        from tasks.settings.load import known_names

        return known_names(kind)
