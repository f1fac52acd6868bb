"""What README, help texts and messages say of the command line, held against the command line."""

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from flows.cli.command_table import COMMANDS, GROUPS
from flows.cli.program import crosscheck
from flows.runtime.control import Interrupted
from tasks.core.errors import BackboneError, CrosscheckError, DatabaseUnavailableError, ExitCode
from tests.support import in_process
from tests.support.command_line import ROOT

DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deployments/README.md"),
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
INLINE = re.compile(r"`crosscheck ([^`]+)`|\"crosscheck ([^\"]+)\"")
PLACEHOLDER = "PLACEHOLDER"
MOST_OF_A_LINE = 65
"""Characters of the line of a command in the list of its group, of a terminal of 80 columns."""


def commands(group: click.Group = crosscheck, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command by its path, groups and their own commands included."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


ALL = dict(commands())


def epilog(command: click.Command) -> str:
    return command.epilog or ""


def example_lines(text: str) -> Iterator[str]:
    """Whole lines that call `crosscheck`, as examples and code blocks have them."""
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        found = re.match(r"\s*(?:.*&& )?(?:\S*/)?crosscheck (.+)", line)
        if found:
            called = found[1]
            while called.count('"') % 2:
                called += "\n" + next(lines)
            yield called


def code_blocks(document: str) -> Iterator[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    yield from re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def examples() -> Iterator[tuple[str, str]]:
    """Every example of the help texts and the documents, with its place."""
    yield from (("crosscheck --help", line) for line in example_lines(epilog(crosscheck)))
    for path, command in ALL.items():
        yield from ((f"{path} --help", line) for line in example_lines(epilog(command)))
    for document in DOCUMENTS:
        yield from ((document, line) for block in code_blocks(document) for line in example_lines(block))


def mentions() -> Iterator[tuple[str, str]]:
    """Every command in the prose of the documents and in the texts of the program, with its place."""
    for document in DOCUMENTS:
        text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.M | re.S)
        yield from ((document, found[1] or found[2]) for found in INLINE.finditer(text.replace("\n", " ")))
    for file in sorted([*(ROOT / "flows").rglob("*.py"), *(ROOT / "tasks").rglob("*.py")]):
        for text in texts(file):
            place = str(file.relative_to(ROOT))
            yield from ((place, found[1] or found[2]) for found in INLINE.finditer(text))


def texts(file: Path) -> Iterator[str]:
    """Every string of a module, what an f-string puts in replaced."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else PLACEHOLDER for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within:
            yield node.value


def words_of(line: str) -> list[str]:
    """Split a command line as a shell does, up to where it goes into a file or another program."""
    words = shlex.split(line, comments=True)
    ends = [place for place, word in enumerate(words) if word in (">", "|", "&&", "2>")]
    return words[: ends[0]] if ends else words


def resolve(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    """Find the command that words call, and what is left for it."""
    command: click.Command = crosscheck
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(click.Context(command), rest[0])
        assert found is not None, f"there is no command {rest[0]}"
        command, rest = found, rest[1:]
    return command, rest


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_a_sentence_and_an_example(path: str) -> None:
    command, (group, *_) = ALL[path], path.split()
    assert command.help
    # The examples of `finetune pairs` stand with `finetune`.
    shown = list(example_lines(epilog(command) + epilog(ALL[group])))
    assert any(line.split()[: len(path.split())] == path.split() for line in shown), f"no example of {path}"


@pytest.mark.parametrize(("place", "line"), sorted(set(examples())))
def test_an_example_is_a_command_line_that_the_program_takes(place: str, line: str) -> None:
    command, rest = resolve(words_of(line))
    if not isinstance(command, click.Group):
        command.make_context(str(command.name), rest)


@pytest.mark.parametrize("path", ALL)
def test_the_help_of_a_command_says_its_exit_codes_and_has_no_control_character(path: str) -> None:
    command = ALL[path]
    text = command.get_help(click.Context(command, info_name=path, terminal_width=80))
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    if not isinstance(command, click.Group) or command.invoke_without_command:
        assert {ExitCode.DONE, ExitCode.BAD_INPUT} <= codes(epilog(command))


def test_the_extraction_finds_examples_and_mentions() -> None:
    places = {place for place, _ in examples()}
    assert {"README.md", "deployments/README.md", "evaluate --help", "answer --help"} <= places
    assert any(place.startswith("tasks/") for place, _ in mentions())


@pytest.mark.parametrize(("place", "line"), sorted(set(mentions())))
def test_a_command_that_a_text_mentions_exists_with_its_options(place: str, line: str) -> None:
    command, rest = resolve(words_of(line))
    if isinstance(command, click.Group) and not command.invoke_without_command:
        assert rest == []
        return
    context = click.Context(command, info_name=command.name)
    try:
        _, left, _ = command.make_parser(context).parse_args(list(rest))
    except click.BadOptionUsage as error:  # `--set` alone: which option is meant is all that is said
        assert error.option_name == rest[-1]
        left = []
    assert left == [], f"{command.name} takes no {left}"


def codes(text: str) -> set[int]:
    """The exit codes that a text lists: `Exit codes: 0 ...; 2 ...`."""
    listed = re.search(r"Exit codes: (.+?)(?:\n\n|\Z)", text, re.DOTALL)
    assert listed, "it lists no exit codes"
    return {int(code) for code in re.findall(r"(?:^|; |\n)(\d+) ", listed[1])}


def test_the_exit_codes_in_the_texts_are_those_of_the_program() -> None:
    evaluation = {ExitCode.DONE, ExitCode.BAD_INPUT, ExitCode.TRY_AGAIN, ExitCode.INTERRUPTED}
    assert codes((ROOT / "docs/commands.md").read_text(encoding="utf-8")) == evaluation
    assert codes(epilog(ALL["evaluate"])) == evaluation
    assert codes(epilog(ALL["benchmarks prepare"])) == evaluation
    assert codes(epilog(ALL["answer"])) == {
        ExitCode.DONE, ExitCode.NEGATIVE, ExitCode.BAD_INPUT, ExitCode.TRY_AGAIN,
    }  # fmt: skip
    assert CrosscheckError.exit_code == ExitCode.BAD_INPUT and Interrupted.exit_code == ExitCode.INTERRUPTED
    assert BackboneError.exit_code == DatabaseUnavailableError.exit_code == ExitCode.TRY_AGAIN
    from flows.cli.program import run

    assert codes(str(run.__doc__)) == evaluation | {ExitCode.INTERNAL_ERROR}


def test_the_overview_has_the_dozen_that_people_use_first_and_names_the_others() -> None:
    assert len(COMMANDS) <= 24
    first = [name for group in GROUPS.values() for name in group]
    assert len(first) == 12
    text = crosscheck.get_help(click.Context(crosscheck, info_name="crosscheck", terminal_width=200))
    for name in first:
        assert re.search(rf"^  {name} +{re.escape(COMMANDS[name].help)}$", text, re.MULTILINE)
    assert f"  {', '.join(name for name in COMMANDS if name not in first)}\n" in text
    listed = in_process.run("help", "commands").out
    for path in ALL:
        assert path.startswith("finetune ") or re.search(rf"^{path} ", listed, re.MULTILINE), path


@pytest.mark.parametrize("path", [path for path in ALL if path.startswith("finetune ")])
def test_the_line_of_a_command_in_its_group_is_whole(path: str) -> None:
    line = ALL[path].get_short_help_str(limit=MOST_OF_A_LINE)
    assert not line.endswith("..."), f"the first sentence of {path} is cut in the list of its group"


@pytest.mark.parametrize(
    "group", ["", *(path for path, command in ALL.items() if isinstance(command, click.Group))]
)
def test_a_group_without_a_command_prints_its_help_once_to_standard_output(group: str) -> None:
    ran = in_process.run(*group.split())
    assert ran.code == 0 and not ran.err
    assert ran.out.count("Usage:") == 1 and ("Commands:" in ran.out or "evaluate" in ran.out)


@pytest.mark.parametrize("width", [40, 60, 66, 80])
def test_no_line_of_a_help_text_ends_within_a_word(width: int) -> None:
    for path, command in commands():
        context = click.Context(command, info_name=path, terminal_width=width)
        broken = [line for line in command.get_help(context).splitlines() if line.rstrip().endswith("-")]
        assert not broken, path
