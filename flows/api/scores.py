"""The part of the public interface that scores what other systems answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.api.inputs import Ids, Settings, as_file, ids, overrides, text
from flows.api.records import Run
from flows.api.results import Results
from flows.api.threads import in_thread
from flows.runtime.control import Control, Progress
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.core.records import Question
from tasks.settings.home import DEFAULT_BENCHMARK, find_data

if TYPE_CHECKING:
    from flows.runtime.folders import Folders
    from flows.scoring.agent_database import AgentDatabase
    from tasks.settings.benchmark import BenchmarkSettings


@dataclass(frozen=True, kw_only=True)
class Scores(Results):
    """A working folder whose results are read, and into which the answers of other systems are scored."""

    def score(
        self,
        predictions: str | Path | Mapping[Any, str | None] | None = None,
        *,
        trajectories: str | Path | None = None,
        benchmark: str | Path = DEFAULT_BENCHMARK,
        name: str | None = None,
        questions: Ids | None = None,
        settings: Settings | None = None,
    ) -> Run:
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

        Raises:
            CrosscheckError: bad input.
        """
        from tasks.settings.assemble import benchmark_settings

        given = trajectories if predictions is None else predictions
        if given is None or (predictions is not None and trajectories is not None):
            raise ConfigurationError("Give one of predictions and trajectories.")
        chosen = benchmark_settings(str(benchmark), overrides(settings))
        with as_file(given) as file, self._progress() as progress:
            return self._score(
                file, trajectories is not None, chosen, name or file.stem, questions, None, progress
            )

    def score_agent(
        self,
        agent: "Callable[[Question, AgentDatabase], Any | Awaitable[Any]]",
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
    ) -> Run:
        """Ask an agent of one's own every question, and score its answers and turns.

        >>> def agent(question, database):
        ...     found = database.execute("SELECT count(*) FROM work")
        ...     return "SELECT title FROM work" if found.ok else None
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
                no answer and counts as wrong.

        Raises:
            CrosscheckError: bad input, or the agent fails at each of the first five questions.
            Interrupted: the user stopped it (a subclass); the same call continues it.
        """
        from flows.runtime.logs import logging_to
        from flows.scoring.agent import AgentSettings, run_agent
        from tasks.settings.assemble import benchmark_settings

        chosen = benchmark_settings(str(benchmark), overrides(settings))
        named = name or str(getattr(agent, "__name__", type(agent).__name__))
        wanted = AgentSettings(
            chosen,
            named,
            ids(questions),
            limit,
            self._folders,
            Path(trajectories).expanduser() if trajectories else None,
            concurrency,
            timeout_s,
            attempts,
        )
        with self._progress() as progress:
            control = Control(progress)
            with logging_to(self._home):
                file = in_thread(lambda: run_agent(agent, wanted, control), [control])
            try:
                return self._score(file, True, chosen, named, questions, limit, progress)
            except CrosscheckError as error:
                kept = f"The answers are kept: crosscheck score --trajectories {file}"
                raise ConfigurationError(f"{error} {kept}") from error

    @property
    def _folders(self) -> "Folders":
        from flows.runtime.folders import Folders

        return Folders(find_data(text(self.data)), self._home)

    def _score(
        self,
        file: Path,
        trajectories: bool,
        benchmark: "BenchmarkSettings",
        name: str,
        questions: Ids | None,
        limit: int | None,
        progress: Progress,
    ) -> Run:
        from flows.runtime.logs import logging_to
        from flows.scoring.run import run_score
        from flows.scoring.settings import ScoreSettings, read_rules
        from tasks.benchmarks.predictions.columns import Reading

        wanted = ScoreSettings(
            benchmark=benchmark,
            predictions=file,
            trajectories=trajectories,
            reading=Reading(None, by_position=False, unwrap=False),
            name=name,
            rules=read_rules(None, benchmark.rule),
            questions=ids(questions),
            limit=limit,
            linking=None,
            trials=3 if benchmark.efficiency else 0,
            folders=self._folders,
        )
        with logging_to(self._home):
            return Run.of(in_thread(lambda: run_score(wanted, progress)).record)
