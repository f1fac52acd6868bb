"""The command line. Commands import what they need when they run, so that `--help` answers at once."""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tasks.errors import CrosscheckError

BUG = 70


class Command(NamedTuple):
    """Entry of the command table.

    Attributes:
        module: dotted name of the module, whose `command` is the click command.
        help: line in the list of commands.
    """

    module: str
    help: str


COMMANDS = {
    "evaluate": Command(
        "flows.evaluation.command",
        "Evaluate a pipeline on a benchmark.",
    ),
    "sweep": Command(
        "flows.sweep.command",
        "Evaluate every backbone with every pipeline and every combination of settings.",
    ),
    "rerun": Command(
        "flows.rerun.command", "Ask some questions of a run again and merge the answers into a new run."
    ),
    "answer": Command(
        "flows.answer.command",
        "Answer one question on a SQLite file of your own.",
    ),
    "score": Command(
        "flows.scoring.command",
        "Score the predictions of any system.",
    ),
    "verify-gold": Command(
        "flows.gold.command",
        "Run every gold query of a benchmark and list those that fail, are slow or return nothing.",
    ),
    "compare": Command(
        "flows.results.compare_command",
        "Say whether one run is better than another, and on which questions they differ.",
    ),
    "runs": Command(
        "flows.results.runs_command",
        "List the runs there are.",
    ),
    "night": Command("flows.nights.command", "Show a nightly run, or list all of them."),
    "query": Command(
        "flows.results.query_command",
        "Run SQL on what all runs found.",
    ),
    "export": Command(
        "flows.results.export_command",
        "Write what all runs found to Parquet files.",
    ),
    "list": Command(
        "flows.cli.list_command",
        "Show the benchmarks, backbones and pipelines there are.",
    ),
    "finetune": Command(
        "flows.finetuning.command", "Train the small model that eliminates bias in SEA-SQL, and judge it."
    ),
    "prepare": Command(
        "flows.descriptions.command",
        "Do now what an evaluation would do first: descriptions, indexes, checks.",
    ),
    "log": Command(
        "flows.results.log_command", "Log to MLflow a run that was kept because MLflow could not be reached."
    ),
    "import": Command(
        "flows.cli.import_command",
        "Turn outputs that others released into a recording.",
    ),
    "reproduce": Command(
        "flows.reproduction.command", "Reproduce published figures and print ours beside them."
    ),
    "up": Command(
        "flows.servers.command",
        "Keep Prefect's server, MLflow's and a worker running, for evaluations at night.",
    ),
    "cache": Command(
        "flows.cli.cache_command", "Show, prune or export the model replies that were paid for."
    ),
}


class LazyGroup(click.Group):
    """Imports a command's module when the command is called, not when the program starts."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user meets them."""
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
        """Resolve a command's name; an unknown one says which was meant."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Exit codes: 0 finished; 2 bad input or configuration; 3 finished, but some questions failed for reasons that a
    re-run can mend; 130 interrupted, everything paid for is kept; 70 a bug of ours, its details in a log.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal of another age may lack a sign; that is no reason to lose a summary.
            stream.reconfigure(errors="replace")
    try:
        code = crosscheck.main(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("crosscheck: stopped.", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except CrosscheckError as error:
        click.echo(f"crosscheck: {error}", err=True)
        code = error.exit_code
        _let_go(error)
    except BrokenPipeError:
        # The reader of our output went away (`| head`); that is its right.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        click.echo(f"crosscheck: {_report_os_error(error)}", err=True)
        code = CrosscheckError.exit_code
        _let_go(error)
    except Exception as error:  # the last resort: a user gets a sentence, a developer the traceback in a file
        click.echo(f"crosscheck: {_report_bug(error)}", err=True)
        code = BUG
        _let_go(error)
    sys.exit(code if isinstance(code, int) else 0)


def _let_go(error: BaseException | None) -> None:
    """Empty the frames that an error keeps alive: DuckDB complains on the terminal of connections found at exit."""
    import traceback

    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _report_bug(error: Exception) -> str:
    """Return what to tell the user of a bug; its traceback goes into the log."""
    said = f"something went wrong that should not ({type(error).__name__}: {error})"
    log = _log(error)
    if log is None:  # without a working folder there is nowhere else for the details
        return f"{said}. Please report it with these details:\n{_details(error)}"
    return (
        f"{said}. What was answered is kept, and the same command continues. The details are at the end of {log}; "
        "please report them."
    )


def _report_os_error(error: OSError) -> str:
    """Return what to tell the user of a disk that is full, or a file that may not be written."""
    log = _log(error)
    more = f" The details are at the end of {log}." if log else ""
    where = f": {error.filename}" if error.filename else ""
    return (
        f"{error.strerror or error}{where}. Is the disk full, or is something there that is not ours? "
        f"What was answered is kept, and the same command continues.{more}"
    )


def _log(error: Exception) -> Path | None:
    """Write the traceback into the working folder's log and return where that is; None where it cannot be."""
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
