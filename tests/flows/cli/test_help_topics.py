"""`crosscheck help`: its topics say what the program does, and are pages of the documentation."""

import re

import pytest

from flows.cli.command_table import COMMANDS
from flows.cli.commands.help import topic_text, topics
from tasks.core.errors import ExitCode
from tasks.results.run_record import RunRecord
from tasks.scoring.metrics.causes import ERROR_CLASSES
from tests.support.command_line import ROOT
from tests.support.in_process import run


def first_cells(topic: str) -> list[str]:
    """The first cell of every row of the tables of a topic."""
    return re.findall(r"^\| `?([\w-]+)`? \|", topic_text(topic), re.MULTILINE)


def test_every_cause_every_code_and_every_field_is_explained() -> None:
    assert sorted(set(first_cells("causes")) - {"cause"}) == sorted(ERROR_CLASSES)
    codes = {int(cell) for cell in first_cells("exit-codes") if cell.isdigit()}
    assert codes == {int(code) for code in ExitCode}
    assert [cell for cell in first_cells("json") if cell != "field"] == [
        *(name for name in RunRecord.model_fields)
    ]


def test_without_a_topic_all_are_listed_and_each_is_printed() -> None:
    listed = run("help").out
    for name, title in topics().items():
        assert re.search(rf"^  {name} +{re.escape(title)}$", listed, re.MULTILINE)
        ran = run("help", name)
        assert ran.code == 0 and ran.out.startswith(f"# {title}\n")


def test_a_command_is_explained_as_by_its_own_help() -> None:
    for words in (("runs",), ("nights",), ("nights", "show")):
        assert run("help", *words).out == run(*words, "--help").out
    run("help", "nights", "shw").assert_refused('There is no topic or command "nights shw"')
    assert set(COMMANDS).isdisjoint(topics())


def test_an_unknown_topic_is_one_message() -> None:
    ran = run("help", "causs")
    assert ran.code == 2 and 'Did you mean "causes"?' in ran.err and ran.out == ""


def test_the_pages_are_on_the_site_and_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name in topics():
        assert f": help-{name}.md\n" in navigation
        assert f"flows/cli/topics/{name}.md" in readme


@pytest.mark.parametrize("name", topics())
def test_a_topic_fits_the_width_of_a_page(name: str) -> None:
    text = (ROOT / f"flows/cli/topics/{name}.md").read_text(encoding="utf-8")
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 131
