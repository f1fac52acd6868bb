"""The commands, in the order of the help text."""

from collections.abc import Mapping
from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command, or a group of them."""

    help: str  # description in the list of commands
    # its module in flows/cli/commands, and its class if that has another name: "results.Runs"
    implementation: str = ""
    text: str = ""  # of a group: what its help says
    examples: str = ""  # of a group
    commands: Mapping[str, "CommandEntry"] = {}  # of a group, by name


BENCHMARKS = CommandEntry(
    "Create, check, copy and prepare benchmarks.",
    text="Create a benchmark of your own, check its gold SQL, copy its databases to a server, prepare it.\n\n"
    "`crosscheck list benchmarks` lists the benchmarks.",
    examples="  crosscheck benchmarks init --questions questions.csv --database shop.sqlite --output shop\n"
    "  crosscheck benchmarks verify --benchmark bird-dev\n",
    commands={
        "init": CommandEntry(
            "Create your own benchmark from questions, their SQL and a database.", "benchmarks.Init"
        ),
        "verify": CommandEntry(
            "Run every gold SQL of a benchmark and list those that fail, are slow or return nothing.",
            "benchmarks.Verify",
        ),
        "load": CommandEntry(
            "Copy a benchmark's SQLite databases into PostgreSQL, MySQL, MariaDB or DuckDB.",
            "benchmarks.Load",
        ),
        "prepare": CommandEntry(
            "Prepare a benchmark for evaluations: descriptions, indexes, checks.", "benchmarks.Prepare"
        ),
    },
)
NIGHTS = CommandEntry(
    "Schedule nightly runs, and show their results.",
    text="Schedule nightly runs: a matrix of evaluations, each compared with its baseline.\n\n"
    "The file nights.yaml has the schedule, the matrix and the limits. It is yours: no update of Crosscheck changes "
    "it.",
    examples="  crosscheck nights init\n      writes nights.yaml: edit it\n"
    "  crosscheck up\n      in another shell: Prefect, MLflow and a worker, which runs the nights\n"
    "  crosscheck nights deploy\n  crosscheck nights status\n  crosscheck nights show\n",
    commands={
        "init": CommandEntry("Write a file to begin with.", "nights.Init"),
        "deploy": CommandEntry("Deploy the nightly runs of a file.", "nights.Deploy"),
        "run": CommandEntry("Start a nightly run now, or continue one.", "nights.Run"),
        "status": CommandEntry(
            "Show the schedule, the next run, the workers and the last result.", "nights.Status"
        ),
        "show": CommandEntry("Show a nightly run, or list all of them.", "nights.Show"),
        "baseline": CommandEntry(
            "Pin the run that nightly runs are compared with, or move it.", "nights.Baseline"
        ),
    },
)
FINETUNE = CommandEntry(
    "Train the small model for bias elimination in SEA-SQL.",
    text="Train the small model for bias elimination in SEA-SQL.",
    examples="  crosscheck evaluate --benchmark spider-train.yaml --pipeline sea-sql --backbone openai\n"
    "  crosscheck finetune pairs latest --evaluated spider-dev --output pairs.jsonl\n"
    "  crosscheck finetune train --pairs pairs.jsonl --output out --set model=mistralai/Mistral-7B-v0.1\n"
    "      then serve the model with its adapter, and evaluate:\n"
    "  crosscheck evaluate --pipeline sea-sql --set pipeline.eliminator=eliminator\n",
    commands={
        "pairs": CommandEntry("Write training pairs from runs on training splits.", "finetune.Pairs"),
        "train": CommandEntry("Fine-tune a model on training pairs with TRL and LoRA.", "finetune.Train"),
    },
)
GROUPS = {
    "Evaluate": {
        "evaluate": CommandEntry("Evaluate a pipeline on a benchmark.", "evaluate"),
        "sweep": CommandEntry(
            "Evaluate every backbone with every pipeline and every combination of settings.", "sweep"
        ),
        "rerun": CommandEntry(
            "Repeat some questions of a run and merge the answers into a new run.", "rerun"
        ),
        "score": CommandEntry("Score the predictions of any system.", "score"),
    },
    "Look at results": {
        "runs": CommandEntry("List all runs.", "results.Runs"),
        "show": CommandEntry(
            "Show a run, or one of its questions with prompts, SQL and gold.", "results.Show"
        ),
        "view": CommandEntry(
            "Show all runs in a browser: questions, two runs side by side, the leaderboard.", "results.View"
        ),
        "compare": CommandEntry(
            "Test whether one run is better than another, and list the questions on which they differ.",
            "results.Compare",
        ),
    },
    "Benchmarks, models and nights": {
        "benchmarks": BENCHMARKS,
        "check": CommandEntry(
            "Find out what a model's endpoint can do, and which settings it needs.", "check"
        ),
        "up": CommandEntry("Run Prefect's server, MLflow's server and a worker for nightly runs.", "up"),
        "nights": NIGHTS,
    },
}
"""The commands that people use first, which the program's help lists."""
FURTHER = {
    "leaderboard": CommandEntry("Rank the latest run of each backbone and pipeline.", "results.Leaderboard"),
    "answer": CommandEntry("Answer one question on your own database.", "answer"),
    "list": CommandEntry("List the available benchmarks, backbones and pipelines.", "help.List"),
    "query": CommandEntry("Run SQL on the results of all runs.", "data.Query"),
    "tables": CommandEntry(
        "Print the tables of the RSL-SQL, SEA-SQL and DAC papers for runs.", "paper.Tables"
    ),
    "plot": CommandEntry("Draw a figure of runs for a paper: PDF, SVG or PNG.", "paper.Plot"),
    "export": CommandEntry(
        "Write all results to Parquet files, or one run for an official evaluator.", "data.Export"
    ),
    "judge": CommandEntry(
        "Ask a model whether the wrong answers of a run are really wrong. The score stays the same.", "judge"
    ),
    "finetune": FINETUNE,
    "status": CommandEntry("Show what the working folder holds, and its size.", "clean.Status"),
    "clean": CommandEntry("Remove the data of old runs from the working folder.", "clean"),
    "help": CommandEntry(
        "Explain a topic: causes, json, exit-codes, ci, workers; or list all commands.", "help"
    ),
}
"""All others: `crosscheck help commands` lists them, too."""
COMMANDS = {**{name: command for group in GROUPS.values() for name, command in group.items()}, **FURTHER}
