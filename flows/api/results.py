"""The part of the public interface that reads the results of runs."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flows.api.inputs import Settings, arguments_named, check_types, checked_mapping, listed, overrides, text
from flows.runtime.control import Progress
from flows.runtime.output import frame
from tasks.core.errors import ConfigurationError, did_you_mean
from tasks.core.registry import forget_changed_files
from tasks.results.run_record import KINDS, Kind, RunRecord
from tasks.settings.choices import EvaluationChoice, labels
from tasks.settings.home import Home, find_home

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from tasks.results.comparison import Comparison
    from tasks.results.noise import Noise
    from tasks.results.warehouse.runs import Warehouse
    from tasks.settings.evaluation import EvaluationSettings

Side = RunRecord | str | Sequence[RunRecord | str]
"""One side of a comparison: a run, or several."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results in a working folder; relative paths are relative to the current folder."""

    home: str | Path | None = None  # working folder; None: CROSSCHECK_HOME, else `.crosscheck`
    data: str | Path | None = None  # folder of the benchmarks' files; None: CROSSCHECK_DATA, else `data`
    # tags of the runs that are made; `name` and `note` have a meaning of their own
    tags: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False  # whether no progress is shown

    @property
    def _home(self) -> Home:
        return find_home(text(self.home))

    @property
    def _warehouse(self) -> "Warehouse":
        from tasks.results.warehouse.runs import Warehouse

        return Warehouse(find_home(text(self.home), make=False).warehouse)

    def _find(self, run: RunRecord | str) -> str:
        """Return the id of a run, or of the one that a text names."""
        from tasks.results.warehouse.runs import find_run

        if isinstance(run, RunRecord):
            return run.run_id
        if not isinstance(run, str):
            raise ConfigurationError(f'{run!r} names no run: give a run, or its id, "latest" or "latest~1".')
        return find_run(run, self._warehouse.runs()).run_id

    def _read(self, run: RunRecord | str) -> RunRecord:
        return self._warehouse.read_run(self._find(run))

    def _settings(
        self,
        benchmark: str | Path,
        backbone: str | Path,
        pipeline: str | Path,
        settings: Settings | None,
        varied: tuple[str, ...] = (),
        **fields: Any,
    ) -> "EvaluationSettings":
        """Return the settings of an evaluation with further overrides, `varied`, and fields of `EvaluationChoice`."""
        from tasks.settings.assemble import evaluation_settings

        forget_changed_files()
        with arguments_named():
            choice = EvaluationChoice(
                benchmark=str(benchmark),
                backbone=str(backbone),
                pipeline=str(pipeline),
                overrides=(*overrides(settings), *varied),
                data=text(self.data),
                home=text(self.home),
                **fields,
            )
            return evaluation_settings(choice)

    def _labels(self) -> Mapping[str, str]:
        tags = checked_mapping("tags", self.tags, {"team": "research"})
        others = [f"{key}={value}" for key, value in tags.items() if key not in ("name", "note")]
        return labels(tags.get("name"), others, tags.get("note")).as_tags

    @contextmanager
    def _progress(self, title: str = "") -> Iterator[Progress]:
        from flows.runtime.progress import open_progress

        if self.quiet or sys.stderr is None:  # it was closed when Python started
            yield Progress()
            return
        with open_progress(sys.stderr, title) as progress:
            yield progress

    def compare(
        self,
        a: Side,
        b: Side,
        *,
        rule: str | None = None,
        margin: float | None = None,
    ) -> "Comparison":
        """Test whether run B is better than run A, or several runs of one system than those of another.

        >>> both = crosscheck.compare(run, run)
        >>> both.difference, both.p_value, both.better, len(both.flips)
        (0.0, 1.0, None, 0)

        Args:
            a: a run, or what names one: an id, the beginning of it, "latest", "latest~1". Several runs are a list, or a
                text as `crosscheck compare` takes it: "latest~1,latest", or "RUN:repeats".
            b: as `a`.
            rule: comparison rule; None: the headline rule of both.
            margin: percentage points; also tests whether B is not worse by that many or more
                (`noninferiority`). None: no such test.
        """
        from tasks.results.compare import compare
        from tasks.results.noise import read_side

        check_types(rule=(rule, str | None), margin=(margin, int | float | None))
        share = None if margin is None else margin / 100
        names = [self._names(side) for side in (a, b)]
        warehouse = self._warehouse
        runs = warehouse.runs()
        side_a, side_b = (read_side(name, runs, warehouse) for name in names)
        return compare(side_a, side_b, rule=rule, margin=share)

    def _names(self, side: Side) -> str:
        """Return the runs of one side of a comparison as `crosscheck compare` takes them."""
        if isinstance(side, str):
            return side
        runs = [side] if isinstance(side, RunRecord) else listed(side) or [side]
        return ",".join(map(self._find, runs))

    def noise(self, run: RunRecord | str = "latest") -> "Noise":
        """Measure how much the repeats of a run differ, which `evaluate --repeats` has made; it sends no request.

        Args:
            run: the run that was repeated, or one of its repeats.

        Returns:
            The figures: the object `noise` that `crosscheck evaluate --repeats N --json` prints.
        """
        from tasks.results.noise import measure, repeated_run, repeats_of

        runs = self._warehouse.runs()
        parent = repeated_run(self._find(run), runs).run_id
        return measure(self._read(parent), [self._read(repeat.run_id) for repeat in repeats_of(parent, runs)])

    def plot(
        self,
        *runs: RunRecord | str,
        kind: str = "stages",
        columns: Literal[1, 2] = 1,
        file: str | Path | None = None,
    ) -> "Figure":
        """Draw a figure of runs, as `crosscheck plot` does.

        >>> crosscheck.plot(run, kind="trend").axes[0].get_ylabel()
        'execution accuracy (%)'

        Args:
            runs: runs, or what names one, as in `compare`.
            kind: stages, pareto, trend or causes.
            columns: columns of a paper that the figure takes.
            file: where to write it, too: a name that ends in .pdf, .svg or .png. None: nowhere.
        """
        from tasks.pages.plots import plot, save

        check_types(kind=(kind, str), file=(file, str | Path | None))
        if columns not in (1, 2):
            raise ConfigurationError(f"columns={columns!r}: a figure takes 1 or 2 columns of a paper.")
        figure = plot([self._read(run) for run in runs], kind, columns)
        if file is not None:
            save(figure, Path(file))
        return figure

    def runs(self) -> "DataFrame":
        """Return all runs, newest first; the columns are those of the table `runs` (`crosscheck query --schema`).

        >>> crosscheck.runs().pipeline.iloc[-1]
        'few-shot'
        """
        return self.query("SELECT * FROM runs ORDER BY started DESC, run_id DESC")

    def predictions(self, run: RunRecord | str = "latest") -> "DataFrame":
        """Return the questions of a run in the benchmark's order, with the final SQL and its verdict.

        >>> crosscheck.predictions(run)[["question_id", "status"]].iloc[0].to_list()
        ['1', 'ok']
        """
        name = self._find(run).replace("'", "''")
        return self.query(f"SELECT * FROM questions WHERE run_id = '{name}' ORDER BY position")

    def query(self, sql: str) -> "DataFrame":
        """Run SQL (DuckDB's dialect) on the results of all runs; it can change nothing and read nothing else.

        >>> crosscheck.query("SELECT pipeline FROM runs ORDER BY started LIMIT 1").pipeline.to_list()
        ['few-shot']
        """
        from tasks.results.warehouse.views import query

        check_types(sql=(sql, str))
        table = query(self._home.warehouse, sql)
        return frame([dict(zip(table.columns, row, strict=True)) for row in table.rows], table.columns)

    @staticmethod
    def available(kind: Kind) -> list[str]:
        """Return the names that come with Crosscheck or that installed packages offer.

        >>> "rsl-sql" in Crosscheck.available("pipeline")
        True
        """
        from tasks.settings.load import known_names

        if kind not in KINDS:
            raise ConfigurationError(f"kind={kind!r}: {did_you_mean(str(kind), KINDS)}")
        return known_names(kind)
