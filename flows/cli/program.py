"""Command line. Commands import their modules when they run, so that `--help` is fast."""

import errno
import importlib
import io
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from flows.cli.command_table import COMMANDS, FURTHER, GROUPS, CommandEntry
from flows.runtime.process import (
    FastExit,
    bypass_proxy_on_loopback,
    collect_garbage_seldom,
    forbid_core_dumps,
    open_closed_streams,
)
from tasks.core.errors import CrosscheckError, ExitCode, did_you_mean

LOOP = "Symlink loop"
"""Start of the message of the RuntimeError that `Path.resolve` raises for a link that points to itself."""


HYPHEN = "\N{NON-BREAKING HYPHEN}"


class WholeWords(click.HelpFormatter):
    """Help whose lines end at blanks, and not within `rsl-sql` or `--fail-if`."""

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write options or commands with their texts."""
        rows = [(name, text.replace("-", HYPHEN)) for name, text in rows]
        super().write_dl(rows, col_max, col_spacing)

    def getvalue(self) -> str:
        """Return what was written."""
        return super().getvalue().replace(HYPHEN, "-")


click.Context.formatter_class = WholeWords


class LazyGroup(click.Group):
    """Command group that imports a command's module only when the command is called."""

    def __init__(self, *args: Any, entries: Mapping[str, CommandEntry] = COMMANDS, **options: Any) -> None:
        """Make a group of the commands of a table."""
        super().__init__(*args, **options)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help text."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        if entry.commands:
            examples = f"\b\nExamples:\n{entry.examples}"
            return LazyGroup(cmd_name, help=entry.text, epilog=examples, entries=entry.commands)
        module_name, _, class_name = entry.implementation.partition(".")
        module = importlib.import_module(f"flows.cli.commands.{module_name}")
        command_class = getattr(module, class_name or module_name.title())
        command: click.Command = command_class.click_command(cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them; the program lists the most used ones in groups, then the others."""
        # a group of commands such as `crosscheck nights` lists its own under one heading
        groups = {"Commands": self._entries} if self._entries is not COMMANDS else GROUPS
        widest = max(len(name) for commands in groups.values() for name in commands)
        for group, commands in groups.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(widest), entry.help) for name, entry in commands.items()])
        if groups is GROUPS:
            with formatter.section('Further commands ("crosscheck help commands" explains them)'):
                formatter.write_text(", ".join(FURTHER))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; without any, print the help."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command's name; the error for an unknown name suggests a similar one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self._entries:
            raise click.UsageError(f'There is no command "{name}". {did_you_mean(name, self._entries)}', ctx)
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
    open_closed_streams()
    fast_exit = FastExit()
    bypass_proxy_on_loopback()
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
    except OSError as error:
        _say(_os_error_message(error))
        code = ExitCode.BAD_INPUT
    except BaseException as error:  # unexpected errors: one sentence for the user, the traceback in the log
        from tasks.core.registry import described, extension_location

        if isinstance(error, SystemExit) and not extension_location(error):
            raise
        if str(error).startswith(LOOP):
            _say(f"{error}: the link points to itself. Name another path.")
            code = ExitCode.BAD_INPUT
        elif extension_location(error):
            log = _append_to_log(error)
            _say(f"{described(error)}.{f' The traceback is at the end of {log}.' if log else ''}")
            code = ExitCode.BAD_INPUT
        elif problem := _no_room():
            _append_to_log(error)
            _say(problem)
            code = ExitCode.TRY_AGAIN
        else:
            _say(_internal_error_message(error))
            code = ExitCode.INTERNAL_ERROR
    return code if isinstance(code, int) else ExitCode.DONE


def _say(message: str) -> None:
    """Print why the command ended; a message may quote a model, a database or a file."""
    from tasks.documents.text import visible

    # Names of thousands of characters are shortened.
    short = re.sub(r"\S{301,}+", lambda name: f"{name[0][:150]}...{name[0][-50:]}", visible(message))
    click.echo(f"crosscheck: {short}", err=True)


def _no_room() -> str:
    """Return a sentence if the disk of the working folder is full or read-only, else ""."""
    from tasks.backbone.cache.room import MIN_FREE, OpenFolder
    from tasks.settings.home import find_home

    try:
        path = find_home(make=False).path
        return OpenFolder(path).problem(MIN_FREE) if path.is_dir() else ""
    except (OSError, CrosscheckError):
        return ""


def _internal_error_message(error: BaseException) -> str:
    """Return the message for an unexpected error, and write its traceback into the log."""
    problem = f"internal error ({type(error).__name__}: {error})"
    log = _append_to_log(error)
    if log is None:  # no working folder, so no log
        details = "".join(traceback.format_exception(error))
        return f"{problem}. Please report it with these details:\n{details}"
    return (
        f"{problem}. Answers so far are kept: run the same command again to continue. Please report it with the "
        f"details at the end of {log}."
    )


def _os_error_message(error: OSError) -> str:
    try:
        Path.cwd()
    except FileNotFoundError:
        return "The current folder was removed. Change to another one, and run the command there."
    log = _append_to_log(error)
    more = f" The details are at the end of {log}." if log else ""
    where = f": {error.filename}" if error.filename else ""
    if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        return f"{error.strerror}{where}. Name another file or folder."
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
        return (
            f"{error.strerror}{where}. A file is where a folder belongs, or a folder where a file belongs: move it "
            "away, then run the same command again."
        )
    return (
        f"{error.strerror or error}{where}. Check that the disk has space and that the file can be read and written. "
        f"Answers so far are kept: run the same command again to continue.{more}"
    )


def _append_to_log(error: BaseException) -> Path | None:
    """Append the traceback to the working folder's log and return its path; None if it cannot be written."""
    from flows.runtime.signals import log_file
    from tasks.settings.home import find_home

    try:
        log = log_file(find_home())
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(error))
    except (OSError, CrosscheckError):
        return None
    return log
