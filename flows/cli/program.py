"""Command line. Commands import their modules when they run, so that `--help` is fast."""

import errno
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from flows.report.exit_codes import ExitCode
from flows.runtime.core_dumps import forbid_core_dumps
from flows.runtime.fast_exit import FastExit
from flows.runtime.garbage import collect_garbage_seldom
from tasks.errors import CrosscheckError

LOOP = "Symlink loop"
"""Begins the message of the RuntimeError that `Path.resolve` raises for a link that leads back to itself."""


class Command(NamedTuple):
    """Entry of the command table.

    Attributes:
        module: dotted name of the module with the click command, in the variable `command`.
        help: description in the list of commands.
    """

    module: str
    help: str


COMMANDS = {
    "evaluate": Command("flows.evaluation.command", "Evaluate a pipeline on a benchmark."),
    "sweep": Command(
        "flows.sweep.command",
        "Evaluate every backbone with every pipeline and every combination of settings.",
    ),
    "rerun": Command(
        "flows.rerun.command", "Ask some questions of a run again and merge the answers into a new run."
    ),
    "answer": Command("flows.answer.command", "Answer one question on a database of your own."),
    "score": Command("flows.scoring.command", "Score the predictions of any system."),
    "verify-gold": Command(
        "flows.gold.command",
        "Run every gold query of a benchmark and list those that fail, are slow or return nothing.",
    ),
    "golds": Command(
        "flows.gold.golds_command",
        "List golds that may be wrong: models agree with each other and not with them.",
    ),
    "init-benchmark": Command(
        "flows.benchmarks.command",
        "Make a benchmark of your own from questions with their SQL and a database.",
    ),
    "load": Command(
        "flows.benchmarks.load_command",
        "Copy a benchmark's SQLite databases into PostgreSQL, MySQL, MariaDB or DuckDB.",
    ),
    "compare": Command(
        "flows.results.compare_command",
        "Test whether one run is better than another, and list the questions on which they differ.",
    ),
    "runs": Command("flows.results.runs_command", "List all runs."),
    "leaderboard": Command("flows.leaderboard.command", "Rank the latest run of each backbone and pipeline."),
    "show": Command("flows.show.command", "Show a run, or one of its questions with prompts, SQL and gold."),
    "report": Command(
        "flows.show.report_command", "Write a run as an HTML page with every question, prompt and result."
    ),
    "judge": Command(
        "flows.judging.command",
        "Ask a model whether the wrong answers of a run are wrong: a column beside the verdict, never a score.",
    ),
    "night": Command("flows.nights.command", "Show a nightly run, or list all of them."),
    "baseline": Command(
        "flows.nights.baseline_command", "Pin the run that nightly runs are compared with, or move it."
    ),
    "query": Command("flows.results.query_command", "Run SQL on the results of all runs."),
    "tables": Command(
        "flows.results.tables_command",
        "Print the tables of RSL-SQL's, SEA-SQL's or DAC's paper for runs.",
    ),
    "export": Command(
        "flows.results.export_command",
        "Write the results of all runs to Parquet files, or the predictions of one for an official evaluator.",
    ),
    "list": Command("flows.cli.list_command", "List the available benchmarks, backbones and pipelines."),
    "finetune": Command(
        "flows.finetuning.command", "Train and evaluate the small model for bias elimination in SEA-SQL."
    ),
    "prepare": Command(
        "flows.descriptions.command", "Prepare a benchmark for evaluations: descriptions, indexes, checks."
    ),
    "log": Command(
        "flows.results.log_command", "Log a finished run to MLflow, if MLflow could not be reached before."
    ),
    "import": Command(
        "flows.reproduction.import_command", "Convert released outputs of other systems into a recording."
    ),
    "reproduce": Command(
        "flows.reproduction.command", "Compute published figures with Crosscheck and print both."
    ),
    "up": Command(
        "flows.servers.command", "Run Prefect's server, MLflow's server and a worker for nightly runs."
    ),
    "status": Command("flows.storage.command", "Show what the working folder holds, and its size."),
    "clean": Command("flows.storage.clean_command", "Remove what old runs have left in the working folder."),
    "cache": Command("flows.storage.cache_command", "Show, remove or export cached model replies."),
}


class LazyGroup(click.Group):
    """Command group that imports a command's module only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name].module)
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command's name; the error for an unknown name suggests a similar one."""
        from tasks.errors import did_you_mean

        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            raise click.UsageError(f'There is no command "{name}". {did_you_mean(name, COMMANDS)}', ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExamples:\n"
    "  crosscheck evaluate\n"
    "  crosscheck evaluate --benchmark bird-dev --backbone openai --questions 717-845\n"
    '  crosscheck answer "How many heroes are from Marvel?" --database superhero.sqlite --backbone openai\n'
    "  crosscheck list",
)
@click.version_option(package_name="crosscheck-sql", prog_name="crosscheck")
def crosscheck() -> None:
    """Evaluate Text-to-SQL pipelines: every stage a cached, retryable Prefect task, every result in MLflow."""


def main() -> None:
    """Run the command that the process was started for, and exit with the code of `run`."""
    fast_exit = FastExit()
    collect_garbage_seldom()
    fast_exit.with_code(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code.

    Exit codes: 0 finished; 2 bad input or configuration; 3 some questions failed and can be retried, or a model's
    endpoint or a database's server cannot be reached; 130 interrupted, all answers are kept; 70 an internal error, with
    details in the log.
    """
    forbid_core_dumps()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal's encoding may lack a character of the summary; it prints a replacement then.
            stream.reconfigure(errors="replace")
    try:
        code = crosscheck.main(args=list(arguments), prog_name="crosscheck", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("crosscheck: stopped.", err=True)
        code = ExitCode.INTERRUPTED
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(
                f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True
            )
        _say(error.format_message())
        code = ExitCode.BAD_INPUT
    except CrosscheckError as error:
        _say(str(error))
        code = error.exit_code
    except BrokenPipeError:
        # The reader of standard output has closed it, for example `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.DONE
    except OSError as error:
        _say(_os_error_message(error))
        code = ExitCode.BAD_INPUT
    except Exception as error:  # unexpected errors: one sentence for the user, the traceback in the log
        from tasks.registry import described, extension_place

        if str(error).startswith(LOOP):
            _say(f"{error}: this link leads back to itself. Name another path.")
            code = ExitCode.BAD_INPUT
        elif extension_place(error):
            log = _log(error)
            _say(f"{described(error)}.{f' The traceback is at the end of {log}.' if log else ''}")
            code = ExitCode.BAD_INPUT
        else:
            _say(_internal_error_message(error))
            code = ExitCode.INTERNAL_ERROR
    return code if isinstance(code, int) else ExitCode.DONE


def _say(message: str) -> None:
    """Print why the command ended; a message may quote a model, a database or a file."""
    from tasks.tracking.pages.text import visible

    # Of a name of thousands of characters the ends are enough.
    short = re.sub(r"\S{301,}+", lambda name: f"{name[0][:150]}...{name[0][-50:]}", visible(message))
    click.echo(f"crosscheck: {short}", err=True)


def _internal_error_message(error: Exception) -> str:
    """Return the message for an unexpected error, and write its traceback into the log."""
    problem = f"internal error ({type(error).__name__}: {error})"
    log = _log(error)
    if log is None:  # no working folder, so no log
        return f"{problem}. Please report it with these details:\n{_details(error)}"
    return (
        f"{problem}. Answers so far are kept, and the same command continues. Please report it with the "
        f"details at the end of {log}."
    )


def _os_error_message(error: OSError) -> str:
    """Return the message for an operating system error, such as a full disk or missing permission."""
    log = _log(error)
    more = f" The details are at the end of {log}." if log else ""
    where = f": {error.filename}" if error.filename else ""
    if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        return f"{error.strerror}{where}. Name another file or folder."
    return (
        f"{error.strerror or error}{where}. Check that the disk has space and that the file can be read and written. "
        f"Answers so far are kept, and the same command continues.{more}"
    )


def _log(error: Exception) -> Path | None:
    """Append the traceback to the working folder's log and return its path; None if it cannot be written."""
    from flows.runtime.logs import log_file
    from tasks.settings.home import find_home

    try:
        log = log_file(find_home())
        with log.open("a", encoding="utf-8") as file:
            file.write(_details(error))
    except (OSError, CrosscheckError):
        return None
    return log


def _details(error: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(error))
