"""The commands by group, in the order of the help text."""

from typing import NamedTuple


class Command(NamedTuple):
    """A command."""

    module: str  # dotted name of the module with the click command, in the variable `command`
    help: str  # description in the list of commands


GROUPS = {
    "Evaluate": {
        "evaluate": Command("flows.evaluation.command", "Evaluate a pipeline on a benchmark."),
        "sweep": Command(
            "flows.sweep.command",
            "Evaluate every backbone with every pipeline and every combination of settings.",
        ),
        "rerun": Command(
            "flows.rerun.command", "Repeat some questions of a run and merge the answers into a new run."
        ),
        "answer": Command("flows.answer.command", "Answer one question on your own database."),
        "score": Command("flows.scoring.command", "Score the predictions of any system."),
    },
    "Look at results": {
        "runs": Command("flows.results.runs_command", "List all runs."),
        "show": Command(
            "flows.show.command", "Show a run, or one of its questions with prompts, SQL and gold."
        ),
        "report": Command(
            "flows.show.report_command", "Write a run as an HTML page with every question, prompt and result."
        ),
        "query": Command("flows.results.query_command", "Run SQL on the results of all runs."),
        "tables": Command(
            "flows.results.tables_command", "Print the tables of the RSL-SQL, SEA-SQL or DAC paper for runs."
        ),
        "plot": Command("flows.plot.command", "Draw a figure of runs for a paper: PDF, SVG or PNG."),
    },
    "Compare": {
        "compare": Command(
            "flows.results.compare_command",
            "Test whether one run is better than another, and list the questions on which they differ.",
        ),
        "noise": Command(
            "flows.noise.command",
            "Repeat a run with new replies, and measure how much identical runs differ.",
        ),
        "leaderboard": Command(
            "flows.leaderboard.command", "Rank the latest run of each backbone and pipeline."
        ),
        "night": Command("flows.nights.command", "Show a nightly run, or list all of them."),
        "baseline": Command(
            "flows.nights.baseline_command", "Pin the run that nightly runs are compared with, or move it."
        ),
    },
    "Benchmarks and models": {
        "list": Command("flows.cli.list_command", "List the available benchmarks, backbones and pipelines."),
        "check": Command(
            "flows.check.command", "Find out what a model's endpoint can do, and which settings it needs."
        ),
        "init-benchmark": Command(
            "flows.benchmarks.command", "Create your own benchmark from questions, their SQL and a database."
        ),
        "verify-gold": Command(
            "flows.gold.command",
            "Run every gold SQL of a benchmark and list those that fail, are slow or return nothing.",
        ),
        "golds": Command(
            "flows.gold.golds_command", "Find gold SQL that may be wrong, and compare answer keys."
        ),
        "judge": Command(
            "flows.judging.command",
            "Ask a model whether the wrong answers of a run are really wrong. The score stays the same.",
        ),
    },
    "Operate": {
        "up": Command(
            "flows.servers.command", "Run Prefect's server, MLflow's server and a worker for nightly runs."
        ),
        "nights": Command("flows.nights.schedule_command", "Schedule nightly runs: write, deploy, show."),
        "status": Command("flows.storage.command", "Show what the working folder holds, and its size."),
        "batches": Command(
            "flows.storage.batches_command", "Show or cancel the batches submitted to a model's provider."
        ),
        "cache": Command("flows.storage.cache_command", "Show, remove or export cached model replies."),
        "clean": Command(
            "flows.storage.clean_command", "Remove the data of old runs from the working folder."
        ),
    },
    "Less often": {
        "prepare": Command(
            "flows.descriptions.command",
            "Prepare a benchmark for evaluations: descriptions, indexes, checks.",
        ),
        "load": Command(
            "flows.benchmarks.load_command",
            "Copy a benchmark's SQLite databases into PostgreSQL, MySQL, MariaDB or DuckDB.",
        ),
        "export": Command(
            "flows.results.export_command",
            "Write all results to Parquet files, or one run for an official evaluator or as a bundle for others.",
        ),
        "import": Command(
            "flows.reproduction.import_command",
            "Score a bundle from elsewhere again, or convert outputs of other systems into a recording.",
        ),
        "reproduce": Command(
            "flows.reproduction.command", "Compute published figures with Crosscheck and print both."
        ),
        "finetune": Command(
            "flows.finetuning.command", "Train and evaluate the small model for bias elimination in SEA-SQL."
        ),
        "log": Command(
            "flows.results.log_command",
            "Log a finished run to MLflow, if MLflow could not be reached before.",
        ),
    },
    "Help": {
        "help": Command("flows.help.command", "Explain a topic: causes, json, exit-codes, ci, workers."),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
