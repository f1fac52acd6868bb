"""`crosscheck score`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli import options

if TYPE_CHECKING:
    from flows.evaluate.score import ScoreSettings


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(
    options.Benchmark, options.Questions, options.Details, options.BenchmarkOverrides, options.Files
):
    """Options of `crosscheck score`."""

    predictions: Path | None = options.path(
        "--predictions",
        metavar="FILE",
        help="File with the predictions, in one of the formats below.",
    )
    trajectories: Path | None = options.path(
        "--trajectories",
        metavar="FILE",
        help="Instead of --predictions: an agent's turns with its tools, in one of the formats below.",
    )
    sql_column: str | None = options.option(
        "--sql-column",
        metavar="NAME",
        help="Column of the predicted SQL, where several may hold it; a.b is a key within an object.",
    )
    by_position: bool = options.flag(
        "--by-position", "Prediction N belongs to question N, whatever ids the file has."
    )
    unwrap: bool = options.flag(
        "--unwrap", "Extract SQL from Markdown fences and from Picard's form `database | SQL`."
    )
    name: str | None = options.option(
        "--name", metavar="NAME", help="Name of the system in MLflow. [default: the file's name]"
    )
    rules: str | None = options.option(
        "--rules",
        metavar="RULES",
        help="Rules to judge by: bird, spider, strict, subset. [default: bird,spider,strict and the benchmark's own] "
        "The benchmark's own is the headline if it is among them, else the first. spider removes DISTINCT from both "
        "queries, as Spider's test-suite evaluation does.",
    )
    efficiency: bool = options.flag(
        "--efficiency", "Also measure the run time of correct answers: VES, R-VES and ves_steps."
    )
    trials: int = options.number(
        "--trials",
        default=3,
        help="Number of time measurements of --efficiency, which show the spread.",
    )
    soft_f1: bool = options.flag("--soft-f1", "Also compute soft-F1 (BIRD mini-dev).")
    linking: Path | None = options.path(
        "--linking",
        metavar="FILE",
        help="Schema links to score: objects with tables and columns, as JSON lines or a JSON list.",
    )

    def settings(self) -> "ScoreSettings":
        """Return the settings of the options."""
        from flows.evaluate.score import ScoreSettings, read_rules
        from tasks.benchmarks.predictions.formats import Reading
        from tasks.core.errors import ConfigurationError
        from tasks.settings.assemble import benchmark_settings

        if (self.predictions is None) == (self.trajectories is None):
            raise ConfigurationError("Give one of --predictions FILE and --trajectories FILE.")
        file = self.predictions or self.trajectories
        assert file is not None
        reading = Reading(self.sql_column, self.by_position, self.unwrap)
        if self.trajectories and reading != Reading():
            raise ConfigurationError("--sql-column, --by-position and --unwrap are for --predictions only.")
        soft_f1 = ("benchmark.soft_f1=true",) if self.soft_f1 else ()
        benchmark = benchmark_settings(self.benchmark, (*self.overrides, *soft_f1))
        return ScoreSettings(
            benchmark=benchmark,
            predictions=file,
            trajectories=self.trajectories is not None,
            reading=reading,
            name=self.name or file.stem,
            rules=read_rules(self.rules, benchmark.rule),
            selection=self.selection,
            linking=self.linking,
            trials=self.trials if self.efficiency or benchmark.efficiency else 0,
            folders=self.folders,
        )


@click.command(
    "score",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    "  crosscheck score --benchmark bird-dev --predictions predict_dev.json --questions 717-845\n"
    "  crosscheck score --benchmark spider-dev --predictions dail-sql.txt --rules bird,spider,strict --details\n"
    "  crosscheck score --benchmark bird-dev --predictions mine.csv --efficiency --json > scores.json\n"
    "  crosscheck score --benchmark spider-dev --predictions other.csv --sql-column generated_sql --by-position\n"
    "  crosscheck score --benchmark bird-dev --trajectories agent.jsonl --name my-agent\n"
    "\n\b\nFormats, recognised by their content:\n"
    "  BIRD's submission  a JSON object: question id -> SQL, tab, ----- bird -----, tab, database\n"
    "  Spider's text      one SQL per line in the order of the questions, optionally a tab and its database\n"
    "  CSV, JSON lines    with the fields question_id and sql (or predicted_sql); also a JSON list of such objects.\n"
    "                     Where several columns may hold the SQL, --sql-column says which\n"
    "  predictions.json   the artifact of an earlier run in MLflow\n"
    "\n\b\nFormats of --trajectories, recognised by their content (docs/agents.md):\n"
    "  JSON lines         question_id, and turns (text, tool_calls, sql, tokens, cost, seconds) or chat messages\n"
    "  OpenTelemetry      spans of the GenAI conventions as JSON, with the attribute question_id\n"
    "\nQuestions without a prediction count as wrong and are listed. Without ids, a file needs a line per question.\n"
    "Objects without ids need --by-position.\n"
    "\nExit codes: 0 scored; 2 bad input or configuration; 3 the disk of the working folder is full or read-only.",
)
@options.record(ScoreOptions)
def command(arguments: ScoreOptions) -> int:
    """Score the predictions of any system on a benchmark.

    Uses no model and no Prefect. The run is logged to MLflow like an evaluation.
    """
    with arguments.progress() as progress:
        file = arguments.predictions or arguments.trajectories or "predictions"
        progress.step(f"Scoring {options.end_of(file)} on {options.end_of(arguments.benchmark)}")
        from flows.evaluate.score import run_score

        scored = run_score(arguments.settings(), progress)

    from flows.runtime.summary import print_summary
    from tasks.results.run_record import json_of

    arguments.emit(
        json_of(scored),
        lambda stream: print_summary(scored, arguments.folder, stream, details=arguments.details),
        text_too=True,
    )
    return scored.exit_code
