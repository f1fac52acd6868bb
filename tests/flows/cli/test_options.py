"""Values of options: the same defaults wherever one is named."""

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from flows.api.crosscheck import Crosscheck
from flows.cli.program import crosscheck
from flows.evaluate.forms import EvaluationForm, Matrix
from tasks.settings.choices import QuestionSelection
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE, find_conf
from tasks.settings.load import available
from tests.support.command_line import ROOT
from tests.support.in_process import run


@pytest.mark.parametrize("field", QuestionSelection.model_fields)
def test_a_field_that_selects_questions_is_in_each_command_in_the_forms_and_in_python(field: str) -> None:
    context = click.Context(crosscheck)
    for name in ("evaluate", "sweep", "score", "judge"):
        command = crosscheck.get_command(context, name)
        assert command is not None
        assert field in {parameter.name for parameter in command.params}, name
    value: Any = 3 if "int" in str(QuestionSelection.model_fields[field].annotation) else "4-7"
    form = EvaluationForm.model_validate({field: value})
    assert f" --{field.replace('_', '-')} {value}" in form.command()
    assert field in Matrix.model_fields
    assert str(value) in QuestionSelection.model_validate({field: value}).in_words
    for method in (Crosscheck.evaluate, Crosscheck.sweep, Crosscheck.score_agent):
        assert field in inspect.signature(method).parameters, method


DEFAULTS = {"benchmark": DEFAULT_BENCHMARK, "backbone": DEFAULT_BACKBONE, "pipeline": DEFAULT_PIPELINE}


@pytest.mark.parametrize("kind", DEFAULTS)
def test_every_command_and_form_has_the_same_default(kind: str) -> None:
    found = set()
    for name in crosscheck.list_commands(click.Context(crosscheck)):
        command = crosscheck.get_command(click.Context(crosscheck), name)
        assert command is not None
        for option in command.params:
            if option.name in (kind, f"{kind}s") and isinstance(option, click.Option) and not option.required:
                found.add((name, option.default))
    assert {default for _, default in found if isinstance(default, str)} == {DEFAULTS[kind]}, found
    assert {name for name, _ in found} >= {"evaluate", "sweep"}
    assert getattr(EvaluationForm(), kind) == DEFAULTS[kind]
    assert getattr(Matrix(), f"{kind}s") == [DEFAULTS[kind]]
    assert DEFAULTS[kind] in available(find_conf(), kind)


@pytest.mark.parametrize("kind", DEFAULTS)
def test_the_page_of_commands_names_the_default_in_its_table_of_options(kind: str) -> None:
    text = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `--{kind}` \| (.*)$", text, re.MULTILINE)
    assert re.findall(r"`([^`]+)` \(the default\)", row) == [DEFAULTS[kind]]


def test_the_nightly_matrix_has_the_defaults_in_it() -> None:
    deployments = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text(encoding="utf-8"))
    (nightly,) = [each for each in deployments["deployments"] if each["name"] == "nightly"]
    matrix = nightly["parameters"]["matrix"]
    for kind, default in DEFAULTS.items():
        assert default in matrix[f"{kind}s"]


def every_command(
    group: click.Group = crosscheck, *names: str
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from every_command(command, *names, name)
        else:
            yield (*names, name), command


def test_an_empty_value_of_any_option_or_argument_stands_for_no_default() -> None:
    context, accepted = click.Context(crosscheck), set()
    for names, command in every_command():
        for parameter in command.params:
            if not getattr(parameter, "is_flag", False):
                with suppress(click.UsageError):
                    parameter.type.convert("", parameter, context)
                    accepted.add((*names, parameter.name))
    assert accepted == {("answer", "evidence")}, "its default is an empty text"


@pytest.mark.parametrize("arguments", [
    ("rerun", ""), ("rerun", "latest", "--from", ""), ("check", "--url", ""), ("export", ""),
    ("leaderboard", "--by", ""), ("evaluate", "--home", ""), ("score", "--predictions", ""),
])  # fmt: skip
def test_an_empty_value_does_nothing(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("it is empty.\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_number_that_is_none_is_refused(value: str) -> None:
    for arguments in (
        ("benchmarks", "verify", "--slow"),
        ("sweep", "--budget"),
        ("compare", "a", "b", "--margin"),
    ):
        ran = run(*arguments, value)
        assert (ran.code, ran.out) == (2, "") and "Invalid value for" in ran.err


WRITES = (
    ("benchmarks", "verify", "--html"), ("show", "latest", "--html"), ("compare", "a", "b", "--html"),
    ("leaderboard", "--html"), ("tables", "latest", "--html"), ("nights", "show", "--html"),
    ("plot", "latest", "--output"), ("export", "latest", "--submission"),
    ("check", "--url", "http://127.0.0.1:1/v1", "--write"),
    ("finetune", "pairs", "latest", "--evaluated", "demo", "--output"),
)  # fmt: skip


@pytest.mark.parametrize("arguments", WRITES)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """There is no run, which another message would say: the file is checked first."""
    missing = tmp_path / "missing" / "file.pdf"
    run(*arguments, str(missing)).assert_refused(f"{missing}: there is no folder {missing.parent}")
    ran = run(*arguments, str(tmp_path))
    assert ran.code == 2 and ("is a folder" in ran.err or "is a directory" in ran.err)


@pytest.mark.parametrize("arguments", [names for names in WRITES if names[-1] == "--html"])
def test_a_page_replaces_no_file_that_is_not_a_page(arguments: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "nights.yaml"
    file.write_text("schedule: daily\n", encoding="utf-8")
    run(*arguments, str(file)).assert_refused(f"--html {file}: this file is not an HTML page")
    assert file.read_text(encoding="utf-8") == "schedule: daily\n"
