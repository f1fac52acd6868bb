"""The public interface: evaluations, answers, scores, comparisons and results, from Python.

    from flows.api import Crosscheck

    crosscheck = Crosscheck()
    run = crosscheck.evaluate(pipeline="few-shot", limit=10)

In a notebook, where an event loop runs already, the methods work alike: each has a thread and a loop of its own.
`run` in the examples is a run of three questions; docs/python.md has more of them.
"""

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flows.api.records import Answer, Comparison, Run, frame
from flows.api.threads import in_thread, restored_environment
from flows.runtime.control import Control, NullProgress, Progress
from tasks.settings.home import (
    DEFAULT_BACKBONE,
    DEFAULT_BENCHMARK,
    DEFAULT_PIPELINE,
    Home,
    find_data,
    find_home,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from tasks.settings.evaluation import EvaluationSettings
    from tasks.tracking.warehouse.runs import StoredRun, Warehouse

Settings = Mapping[str, Any]
Ids = str | Iterable[str | int]

SHOWN_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class Crosscheck:
    """A working folder, and what can be done in it. Relative paths are relative to the current folder.

    A method that cannot do what it is asked raises `CrosscheckError`, whose message is the one that the command line
    prints: what is wrong, where, and how to correct it. Paid replies are kept; the same call continues.

    Attributes:
        home: working folder; None: CROSSCHECK_HOME, else `.crosscheck`.
        data: folder of the benchmarks' files; None: CROSSCHECK_DATA, else `data`.
        tags: tags of the runs that are made; `name` and `note` have a meaning of their own.
        quiet: whether no progress is shown.
    """

    home: str | Path | None = None
    data: str | Path | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False

    def evaluate(
        self,
        benchmark: str | Path = DEFAULT_BENCHMARK,
        backbone: str | Path = DEFAULT_BACKBONE,
        pipeline: str | Path = DEFAULT_PIPELINE,
        *,
        questions: Ids | None = None,
        limit: int | None = None,
        settings: Settings | None = None,
    ) -> Run:
        """Evaluate a pipeline on a benchmark, as `crosscheck evaluate` does.

        Args:
            benchmark: a name of `available`, or the path of a file of one's own.
            backbone: likewise.
            pipeline: likewise.
            questions: ids, or a text such as "717-845,900"; None: all.
            limit: only the first so many of them.
            settings: values by key, as `--set` takes them: `{"pipeline.augmentation.keywords": False}`.

        Raises:
            CrosscheckError: bad input, or a service that does not answer.
            Interrupted: the user stopped it (a subclass).
        """
        chosen = self._settings(
            benchmark, backbone, pipeline, settings, questions=_ids(questions), limit=limit
        )
        tags = self._labels()
        with self._progress() as progress, restored_environment():
            control = Control(progress, tags=tags)
            return in_thread(lambda: _evaluate(chosen, control), control)

    def answer(
        self,
        question: str,
        database: str | Path,
        *,
        backbone: str | Path = DEFAULT_BACKBONE,
        pipeline: str | Path = DEFAULT_PIPELINE,
        evidence: str = "",
        settings: Settings | None = None,
    ) -> Answer:
        """Answer a question on a database of one's own, as `crosscheck answer` does.

        Args:
            question: the question.
            database: a SQLite or DuckDB file, a folder of Parquet or CSV files, or a URL; it is only read.
            backbone: as in `evaluate`.
            pipeline: as in `evaluate`.
            evidence: a hint that explains terms of the question.
            settings: as in `evaluate`.

        Returns:
            The SQL and at most the first 1,000 rows of its result.

        Raises:
            CrosscheckError: bad input, or a service that does not answer.
        """
        import asyncio

        from flows.answer.answering import Asked, answer_one
        from flows.runtime.logs import logging_to

        chosen = self._settings(DEFAULT_BENCHMARK, backbone, pipeline, settings)
        asked = Asked(question, evidence, str(database), SHOWN_ROWS)
        with self._progress() as progress, logging_to(Home(Path(chosen.home))):
            return Answer.of(in_thread(lambda: asyncio.run(answer_one(chosen, asked, progress))))

    def score(
        self,
        predictions: str | Path | Mapping[Any, str | None],
        *,
        benchmark: str | Path = DEFAULT_BENCHMARK,
        name: str | None = None,
        questions: Ids | None = None,
        settings: Settings | None = None,
    ) -> Run:
        """Score the predictions of any system, as `crosscheck score` does.

        >>> made = crosscheck.score({1: "SELECT 1", 2: None}, name="mine", questions=[1, 2])
        >>> made.ex.total, made.summary["backbone"]
        (2, 'mine')

        Args:
            predictions: a file in one of the formats of `crosscheck score --help`, or each question's SQL by its id.
            benchmark: as in `evaluate`.
            name: name of the system; None: the file's name, or "predictions".
            questions: as in `evaluate`.
            settings: as in `evaluate`, of `benchmark.*` only.

        Raises:
            CrosscheckError: bad input.
        """
        from flows.runtime.logs import logging_to
        from flows.scoring.run import run_score
        from flows.scoring.settings import ScoreSettings, read_rules
        from tasks.benchmarks.predictions.columns import Reading
        from tasks.settings.assemble import benchmark_settings

        chosen = benchmark_settings(str(benchmark), _overrides(settings))
        with _as_file(predictions) as file, self._progress() as progress:
            wanted = ScoreSettings(
                benchmark=chosen,
                predictions=file,
                reading=Reading(None, by_position=False, unwrap=False),
                name=name or file.stem,
                rules=read_rules(None, chosen.rule),
                questions=_ids(questions),
                limit=None,
                linking=None,
                trials=3 if chosen.efficiency else 0,
                data=find_data(_text(self.data)),
                home=self._home,
            )
            with logging_to(wanted.home):
                return Run.of(in_thread(lambda: run_score(wanted, progress)))

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

        >>> crosscheck.runs().iloc[-1][["pipeline", "status", "rule"]].to_list()
        ['few-shot', 'complete', 'bird']

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
        from tasks.settings.home import find_conf
        from tasks.settings.load import available, offered

        return sorted({*available(find_conf(), kind), *offered(kind)})

    @property
    def _home(self) -> Home:
        return find_home(_text(self.home))

    @property
    def _warehouse(self) -> "Warehouse":
        from tasks.tracking.warehouse.runs import Warehouse

        return Warehouse(self._home.warehouse)

    def _find(self, run: Run | str) -> str:
        from tasks.tracking.warehouse.run_names import find_run

        return run.run_id if isinstance(run, Run) else find_run(run, self._warehouse.runs()).run_id

    def _read(self, run: Run | str) -> "StoredRun":
        return self._warehouse.read_run(self._find(run))

    def _settings(
        self,
        benchmark: str | Path,
        backbone: str | Path,
        pipeline: str | Path,
        settings: Settings | None,
        **more: Any,
    ) -> "EvaluationSettings":
        from tasks.settings.assemble import EvaluationChoice, evaluation_settings

        return evaluation_settings(
            EvaluationChoice(
                benchmark=str(benchmark),
                backbone=str(backbone),
                pipeline=str(pipeline),
                overrides=_overrides(settings),
                data=_text(self.data),
                home=_text(self.home),
                **more,
            )
        )

    def _labels(self) -> Mapping[str, str]:
        from tasks.settings.evaluation import labels

        others = [f"{key}={value}" for key, value in self.tags.items() if key not in ("name", "note")]
        return labels(self.tags.get("name"), others, self.tags.get("note")).as_tags

    @contextmanager
    def _progress(self) -> Iterator[Progress]:
        from flows.cli.progress import open_progress

        if self.quiet:
            yield NullProgress()
            return
        with open_progress(sys.stderr) as progress:
            yield progress


def _evaluate(settings: "EvaluationSettings", control: Control) -> Run:
    from flows.questions.launch import launched

    with launched(settings, control, flow="flows.evaluation.flow") as prefect:
        from flows.evaluation.flow import evaluation

        return Run.of(prefect.loop.run(evaluation(control, prefect.preparation)(settings)).value)


def _overrides(settings: Settings | None) -> tuple[str, ...]:
    """Return settings as texts for `--set`, whose values are YAML, of which JSON is a part."""
    return tuple(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in (settings or {}).items())


def _ids(questions: Ids | None) -> str | None:
    if questions is None or isinstance(questions, str):
        return questions
    return ",".join(str(each) for each in questions)


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)


@contextmanager
def _as_file(predictions: str | Path | Mapping[Any, str | None]) -> Iterator[Path]:
    """Yield the file of predictions; predictions by id are written to a temporary one."""
    if not isinstance(predictions, Mapping):
        yield Path(predictions).expanduser()
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.jsonl"
        lines = (json.dumps({"question_id": id_, "sql": sql}) for id_, sql in predictions.items())
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield file
