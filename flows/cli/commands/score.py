"""`crosscheck score`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from flows.cli import options
from tasks.core.errors import ConfigurationError
from tasks.core.wording import end_of

if TYPE_CHECKING:
    from flows.evaluate.score import ScoreSettings


class Score(options.Benchmark, options.Questions, options.Details, options.BenchmarkOverrides, options.Files):
    """Score the predictions of any system on a benchmark.

    Uses no model and no Prefect. The run is logged to MLflow like an evaluation.

    Examples:
      crosscheck score --benchmark bird-dev --predictions predict_dev.json --questions 717-845
      crosscheck score --benchmark spider-dev --predictions dail-sql.txt --rules bird,spider,strict --details
      crosscheck score --benchmark bird-dev --predictions mine.csv --efficiency --json > scores.json
      crosscheck score --benchmark spider-dev --predictions other.csv --sql-column generated_sql --by-position
      crosscheck score --benchmark bird-dev --trajectories agent.jsonl --name my-agent

    Formats, recognised by their content:
      BIRD's submission  a JSON object: question id -> SQL, tab, ----- bird -----, tab, database
      Spider's text      one SQL per line in the order of the questions, optionally a tab and its database
      CSV, JSON lines    with the fields question_id and sql (or predicted_sql); also a JSON list of such objects.
                         Where several columns may hold the SQL, --sql-column says which
      Spider 2.0's       a folder with a file ID.sql for each question
      predictions.json   the artifact of an earlier run in MLflow

    Formats of --trajectories, recognised by their content (docs/agents.md):
      JSON lines         question_id, and turns (text, tool_calls, sql, tokens, cost, seconds) or chat messages
      OpenTelemetry      spans of the GenAI conventions as JSON, with the attribute question_id

    Questions without a prediction count as wrong and are listed. Without ids, a file needs a line per question.
    Objects without ids need --by-position.

    Exit codes: 0 scored; 2 bad input or configuration; 3 the disk of the working folder is full or read-only.
    """

    grouped = True
    predictions: Annotated[Path | None, options.Metavar("FILE"), options.More(type=options.FilePath())] = None
    """File with the predictions, in one of the formats below."""
    trajectories: Path | None = None
    """Instead of --predictions: an agent's turns with its tools, in one of the formats below."""
    sql_column: Annotated[str | None, options.Metavar("NAME")] = None
    """Column of the predicted SQL, where several may hold it; a.b is a key within an object."""
    by_position: bool = False
    """Prediction N belongs to question N, whatever ids the file has."""
    unwrap: bool = False
    """Extract SQL from Markdown fences and from Picard's form `database | SQL`."""
    name: Annotated[str | None, options.Metavar("NAME")] = None
    """Name of the system in MLflow. [default: the file's name]"""
    rules: Annotated[str | None, options.Metavar("RULES")] = None
    """Rules to judge by: bird, spider, strict, subset. [default: bird,spider,strict and the benchmark's own] The
    benchmark's own is the headline if it is among them, else the first. spider removes DISTINCT from both queries,
    as Spider's test-suite evaluation does."""
    efficiency: bool = False
    """Also measure the run time of correct answers: VES, R-VES and ves_steps."""
    trials: Annotated[int | None, Ge(1)] = None
    """Number of time measurements of --efficiency, which show the spread. [default: 3]"""
    soft_f1: bool = False
    """Also compute soft-F1 (BIRD mini-dev)."""
    linking: Path | None = None
    """Schema links to score: objects with tables and columns, as JSON lines or a JSON list."""

    def __call__(self) -> int:
        with self.progress() as progress:
            file = self.predictions or self.trajectories or "predictions"
            progress.step(f"Scoring {end_of(file)} on {end_of(self.benchmark)}")
            from flows.evaluate.score import run_score

            scored = run_score(self.settings(), progress)

        from flows.runtime.summary import print_summary

        self.emit(
            scored,
            lambda stream: print_summary(scored, self.folder, stream, details=self.details),
            text_too=True,
        )
        return scored.exit_code

    def settings(self) -> "ScoreSettings":
        """Return the settings of the options."""
        from flows.evaluate.score import ScoreSettings, read_rules
        from flows.evaluate.scorer import TRIALS
        from tasks.benchmarks.predictions.formats import ReadingOptions
        from tasks.settings.assemble import benchmark_settings

        if (self.predictions is None) == (self.trajectories is None):
            raise ConfigurationError("Give one of --predictions FILE and --trajectories FILE.")
        file = self.predictions or self.trajectories
        assert file is not None
        reading = ReadingOptions(self.sql_column, by_position=self.by_position, unwrap=self.unwrap)
        if self.trajectories and reading != ReadingOptions():
            raise ConfigurationError("--sql-column, --by-position and --unwrap are for --predictions only.")
        soft_f1 = ("benchmark.soft_f1=true",) if self.soft_f1 else ()
        benchmark = benchmark_settings(self.benchmark, (*self.overrides, *soft_f1))
        measured = self.efficiency or benchmark.efficiency
        if self.trials and not measured:
            raise ConfigurationError("--trials counts the measurements of --efficiency: give both.")
        return ScoreSettings(
            benchmark=benchmark,
            predictions=file,
            trajectories=self.trajectories is not None,
            reading=reading,
            name=self.name or file.stem,
            rules=read_rules(self.rules, benchmark.rule),
            selection=self.selection,
            linking=self.linking,
            trials=(self.trials or TRIALS) if measured else 0,
            folders=self.folders,
        )
