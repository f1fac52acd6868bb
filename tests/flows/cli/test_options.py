"""Values of options: the same defaults wherever one is named."""

import inspect
import re
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
