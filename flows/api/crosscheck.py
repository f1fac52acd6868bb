"""The public interface: evaluations, answers, scores, comparisons and results, from Python.

    from crosscheck import Crosscheck

    crosscheck = Crosscheck()
    run = crosscheck.evaluate(pipeline="few-shot", limit=10)

In a notebook, where an event loop runs already, the methods work alike: each has a thread and a loop of its own.
`run` in the examples is a run of three questions; docs/python.md has more of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.api.inputs import (
    Ids,
    Settings,
    arguments_named,
    as_file,
    check_types,
    grid_axes,
    ids,
    in_thread,
    listed,
    overrides,
    restored_environment,
    selection,
    text,
)
from flows.api.results import Results
from flows.evaluate.score_agent import AgentDatabase, ScoredAgent, run_agent
from flows.runtime.control import Control, Interrupted, Progress
from flows.runtime.folders import Folders
from flows.runtime.signals import logging_to
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.core.records import Question
from tasks.core.registry import forget_changed_files
from tasks.results.run_record import RunRecord
from tasks.settings.assemble import benchmark_settings
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.choices import Only, QuestionSelection
from tasks.settings.evaluation import EvaluationSettings, RerunSettings
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE, Home, find_data

if TYPE_CHECKING:
    from flows.evaluate.answering import DatabaseAnswer
    from flows.matrix.matrix import Sweep


SHOWN_ROWS = 1_000


@dataclass(frozen=True, kw_only=True)
class Crosscheck(Results):
    """A working folder, and what can be done in it. Relative paths are relative to the current folder.

    A method that cannot do what it is asked raises `CrosscheckError`, whose message is the one that the command line
    prints: what is wrong, where, and how to correct it. If the user stops it, that is an `Interrupted`, a subclass.
    Paid replies are kept; the same call continues.

    Attributes:
        home: working folder; None: CROSSCHECK_HOME, else `.crosscheck`.
        data: folder of the benchmarks' files; None: CROSSCHECK_DATA, else `data`.
        tags: tags of the runs that are made; `name` and `note` have a meaning of their own.
        quiet: whether no progress is shown.
    """

    def evaluate(
        self,
        benchmark: str | Path = DEFAULT_BENCHMARK,
        backbone: str | Path = DEFAULT_BACKBONE,
        pipeline: str | Path = DEFAULT_PIPELINE,
        *,
        questions: Ids | None = None,
        limit: int | None = None,
        settings: Settings | None = None,
    ) -> RunRecord:
        """Evaluate a pipeline on a benchmark, as `crosscheck evaluate` does.

        Args:
            benchmark: a name of `available`, or the path of a file of one's own.
            backbone: as `benchmark`.
            pipeline: as `benchmark`.
            questions: ids, or a text such as "717-845,900"; None: all.
            limit: only the first so many of them.
            settings: values by key, as `--set` takes them: `{"pipeline.augmentation.keywords": False}`.
        """
        from flows.evaluate.run import run_evaluation

        chosen = self._settings(
            benchmark, backbone, pipeline, settings, questions=ids(questions), limit=limit
        )
        tags = self._labels()
        with self._progress() as progress, restored_environment():
            control = Control(progress, tags=tags)
            return in_thread(lambda: run_evaluation(chosen, control), [control])

    def rerun(
        self,
        run: RunRecord | str = "latest",
        *,
        only: Only | None = None,
        questions: Ids | None = None,
        from_stage: str | None = None,
        fresh: bool = False,
        settings: Settings | None = None,
    ) -> RunRecord:
        """Ask some questions of a run again, and merge the answers into a new run, as `crosscheck rerun` does.

        >>> crosscheck.rerun(run).notes
        ('There is no question to repeat (--only errors).',)

        Args:
            run: a run, or what names one, as in `compare`.
            only: "errors": the questions that failed and can be asked again; "wrong": those that are scored wrong;
                "empty": those whose SQL returned no row; "timeouts": those whose SQL exceeded the time limit;
                None: "errors", and with `from_stage` every question that went through that stage.
            questions: these instead, as in `evaluate`.
            from_stage: run this stage and the later ones again; None: only stages without a result.
            fresh: whether requests are sent, and paid for, again although their replies are cached.
            settings: of `backbone.concurrency` and others that do not influence the score.

        Returns:
            The new run; where there is no question to repeat, the given run, whose `notes` say so.
        """
        from flows.evaluate.rerun import plan_rerun, run_rerun

        forget_changed_files()
        with arguments_named():
            rerun = RerunSettings(
                run=self._find(run),
                only=only,
                questions=ids(questions),
                from_stage=from_stage,
                fresh=fresh,
                overrides=overrides(settings),
                data=str(find_data(text(self.data))),
                home=str(self._home.path),
            )
        plan = plan_rerun(rerun)
        if not plan.again:
            note = f"There is no question to repeat ({plan.selection})."
            return plan.parent.model_copy(update={"notes": (note,)})
        tags = self._labels()
        with self._progress() as progress, restored_environment():
            control = Control(progress, tags=tags)
            return in_thread(lambda: run_rerun(plan, control), [control])

    def sweep(
        self,
        benchmark: str | Path = DEFAULT_BENCHMARK,
        backbones: Sequence[str | Path] = (DEFAULT_BACKBONE,),
        pipelines: Sequence[str | Path] = (DEFAULT_PIPELINE,),
        *,
        grid: Mapping[str, Sequence[Any]] | None = None,
        questions: Ids | None = None,
        limit: int | None = None,
        settings: Settings | None = None,
        budget_usd: float | None = None,
        dry_run: bool = False,
    ) -> "Sweep":
        """Evaluate every backbone with every pipeline and combination of settings, as `crosscheck sweep` does.

        What keeps one cell from being evaluated is in `Sweep.table`, and no error.

        >>> planned = crosscheck.sweep(pipelines=["zero-shot", "few-shot"], questions=[1, 2], dry_run=True)
        >>> planned.table[["pipeline", "estimated_calls", "estimated_usd"]].values.tolist()
        [['zero-shot', 2, 0.0], ['few-shot', 2, 0.0]]

        Args:
            benchmark: as in `evaluate`.
            backbones: names or files.
            pipelines: as `backbones`.
            grid: values of settings by key, `{"pipeline.demonstrations.k": [0, 1, 3]}`; every combination is evaluated.
            questions: as in `evaluate`.
            limit: as in `evaluate`.
            settings: as in `evaluate`, for all cells.
            budget_usd: cost of the paid calls at which it stops asking; None: no limit.
            dry_run: whether it is only estimated, which needs no key.
        """
        from flows.evaluate.preparation import check_budget
        from flows.matrix.matrix import CellResult, Sweep, estimate_cells, plan_sweep, run_sweep

        def settings_of(backbone: str, pipeline: str, varied: tuple[str, ...]) -> EvaluationSettings:
            selected = {"questions": ids(questions), "limit": limit}
            return self._settings(benchmark, backbone, pipeline, settings, varied, **selected)

        backbone_names, pipeline_names = (list(map(str, listed(names))) for names in (backbones, pipelines))
        axes = grid_axes(grid)
        cells = plan_sweep(settings_of, backbone_names, pipeline_names, axes, sends_requests=not dry_run)
        check_types(budget_usd=(budget_usd, int | float | None))
        check_budget([cell.settings for cell in cells], budget_usd)
        labels = {} if dry_run else self._labels()
        controls = [Control()]  # takes an interrupt that comes before the first cell

        @contextmanager
        def open_control(position: str) -> Iterator[Control]:
            if any(control.stop.is_set() for control in controls):
                raise Interrupted(
                    "Stopped. The same call continues; what was answered is not paid for again."
                )
            with self._progress(position) as progress:
                controls.append(Control(progress))
                yield controls[-1]

        with restored_environment():
            with self._progress() as progress:
                estimates = in_thread(lambda: asyncio.run(estimate_cells(cells, progress)))
            if dry_run:
                results = tuple(CellResult(*pair) for pair in zip(cells, estimates, strict=True))
                return Sweep("", results)
            run = partial(run_sweep, labels, budget_usd, cells, estimates, open_control)
            return in_thread(run, controls)

    def answer(
        self,
        question: str,
        database: str | Path,
        *,
        backbone: str | Path = DEFAULT_BACKBONE,
        pipeline: str | Path = DEFAULT_PIPELINE,
        evidence: str = "",
        settings: Settings | None = None,
    ) -> "DatabaseAnswer":
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
        """
        from flows.evaluate.answering import AnswerRequest, DatabaseAnswer, answer_one

        chosen = self._settings(DEFAULT_BENCHMARK, backbone, pipeline, settings)
        check_types(question=(question, str), evidence=(evidence, str))
        request = AnswerRequest(question, evidence, str(database), SHOWN_ROWS)
        with self._progress() as progress, logging_to(Home(Path(chosen.home))):
            answered = in_thread(lambda: asyncio.run(answer_one(chosen, request, progress)))
        return DatabaseAnswer.model_validate(answered)

    def score(
        self,
        predictions: str | Path | Mapping[Any, str | None] | None = None,
        *,
        trajectories: str | Path | None = None,
        benchmark: str | Path = DEFAULT_BENCHMARK,
        name: str | None = None,
        questions: Ids | None = None,
        settings: Settings | None = None,
    ) -> RunRecord:
        """Score the predictions of any system, or the turns of any agent, as `crosscheck score` does.

        >>> made = crosscheck.score({1: "SELECT 1", 2: None}, name="mine", questions=[1, 2])
        >>> made.total, made.backbone
        (2, 'mine')

        Args:
            predictions: a file in one of the formats of `crosscheck score --help`, or each question's SQL by its id.
            trajectories: in their place, a file of an agent's turns, as `--trajectories` takes it.
            benchmark: as in `evaluate`.
            name: name of the system; None: the file's name, or "predictions".
            questions: as in `evaluate`.
            settings: as in `evaluate`, of `benchmark.*` only.
        """
        file_or_answers = trajectories if predictions is None else predictions
        if file_or_answers is None or (predictions is not None and trajectories is not None):
            raise ConfigurationError("Give one of predictions and trajectories.")
        chosen = _benchmark_settings(benchmark, settings)
        with as_file(file_or_answers) as file, self._progress() as progress:
            is_trajectories = trajectories is not None
            selected = selection(questions, limit=None)
            system = name or file.stem
            return self._score(file, chosen, system, selected, progress, trajectories=is_trajectories)

    def score_agent(
        self,
        agent: Callable[[Question, AgentDatabase], Any | Awaitable[Any]],
        *,
        benchmark: str | Path = DEFAULT_BENCHMARK,
        name: str | None = None,
        questions: Ids | None = None,
        limit: int | None = None,
        settings: Settings | None = None,
        trajectories: str | Path | None = None,
        concurrency: int = 4,
        timeout_s: float = 600.0,
        attempts: int = 3,
    ) -> RunRecord:
        """Ask an agent of one's own every question, and score its answers and turns.

        >>> def agent(question, database):
        ...     counted = database.execute("SELECT count(*) FROM work")
        ...     return "SELECT title FROM work" if counted.ok else None
        >>> run = crosscheck.score_agent(agent, questions=[1, 2])
        >>> run.total, run.backbone
        (2, 'agent')

        Args:
            agent: a function, also an async one, of the question and of a database that only reads. It returns the SQL,
                None, or a dict with `sql` and `turns` or `messages` as docs/agents.md describes them; without these,
                the executed queries are the turns. Functions run in threads, `concurrency` at a time; coroutines share
                one event loop.
            benchmark: as in `evaluate`.
            name: name of the agent; None: the function's.
            questions: as in `evaluate`.
            limit: as in `evaluate`.
            settings: as in `evaluate`, of `benchmark.*` only.
            trajectories: file of the turns. One that exists is continued: the agent is run on the questions that it
                lacks, and on those that failed. None: a new file in the working folder, or that of a call that was
                stopped.
            concurrency: questions at the same time.
            timeout_s: seconds for an attempt at a question; one that takes longer has failed.
            attempts: attempts at a question while the agent raises an exception. A question whose attempts all fail has
                no answer and counts as wrong; if each of the first five fails, it is an error.
        """
        check_types(name=(name, str | None), trajectories=(trajectories, str | Path | None))
        chosen = _benchmark_settings(benchmark, settings)
        agent_name = name or str(getattr(agent, "__name__", type(agent).__name__))
        agent_settings = ScoredAgent(
            benchmark=chosen,
            name=agent_name,
            selection=selection(questions, limit),
            folders=self._folders,
            trajectories=Path(trajectories).expanduser() if trajectories else None,
            concurrency=concurrency,
            timeout_s=timeout_s,
            attempts=attempts,
        )
        with self._progress() as progress:
            control = Control(progress)
            with logging_to(self._home):
                file = in_thread(lambda: run_agent(agent, agent_settings, control), [control])
            try:
                selected = agent_settings.selection
                return self._score(file, chosen, agent_name, selected, progress, trajectories=True)
            except CrosscheckError as error:
                hint = f"The answers are kept: crosscheck score --trajectories {file}"
                raise ConfigurationError(f"{error} {hint}") from error

    @property
    def _folders(self) -> Folders:
        return Folders(find_data(text(self.data)), self._home)

    def _score(
        self,
        file: Path,
        benchmark: BenchmarkSettings,
        name: str,
        selected: QuestionSelection,
        progress: Progress,
        *,
        trajectories: bool,
    ) -> RunRecord:
        from flows.evaluate.score import ScoreSettings, read_rules, run_score

        settings = ScoreSettings(
            benchmark=benchmark,
            predictions=file,
            trajectories=trajectories,
            name=name,
            rules=read_rules(None, headline=benchmark.rule),
            selection=selected,
            trials=3 if benchmark.efficiency else 0,
            folders=self._folders,
        )
        with logging_to(self._home):
            return in_thread(lambda: run_score(settings, progress))


def _benchmark_settings(benchmark: str | Path, settings: Settings | None) -> BenchmarkSettings:
    forget_changed_files()
    return benchmark_settings(str(benchmark), overrides(settings))
