"""Values of options that no setting can have: one message that names the option, before anything is done."""

from pathlib import Path

import click
import pytest

from flows.cli.program import crosscheck
from flows.evaluate.forms import EvaluationForm, Matrix
from tasks.settings.choices import QuestionSelection
from tests.support import in_process

SURROGATE = "\udcff"
CASES = {
    ("evaluate", "--limit", "2000000"): "--limit 2000000: Input should be less than or equal to 1000000.",
    ("evaluate", "--questions", SURROGATE): "it contains NUL or half of a surrogate pair",
    ("evaluate", "--benchmark", SURROGATE): "it contains NUL or half of a surrogate pair",
    ("evaluate", "--record", f"{SURROGATE}.jsonl"): "--record <U+DCFF>.jsonl: it contains NUL",
    ("evaluate", "--set", f"backbone.model={SURROGATE}"): "--set ",
    ("sweep", "--backbones", "offline", "--pipelines", "zero-shot", "--limit", "2000000"): "--limit 2000000",
    ("answer", "How many?", "--database", "a.sqlite", "--backbone", SURROGATE): "--backbone ",
    ("judge", "latest", "--backbone", SURROGATE): "--backbone ",
    ("rerun", SURROGATE): "--run ",
    ("rerun", "latest", "--questions", SURROGATE): "--questions ",
    ("clean", "--keep-runs", "2000000"): "2000000 is not in the range 0<=x<=1000000",
    ("clean", "--keep", "soon"): "write a number and d, h or m",
}


@pytest.mark.parametrize("words", CASES, ids=lambda words: " ".join(words[:2]).replace(SURROGATE, "?"))
def test_a_value_that_no_setting_can_have_is_one_message(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    ran = in_process.run(*words)
    assert (ran.code, ran.out) == (2, ""), ran.err
    message = ran.err.splitlines()[-1]
    assert message.startswith("crosscheck: ") and CASES[words] in message
    assert "internal error" not in ran.err


@pytest.mark.parametrize("field", QuestionSelection.model_fields)
def test_a_field_that_selects_questions_is_an_option_of_each_command_and_of_the_forms(field: str) -> None:
    context = click.Context(crosscheck)
    for name in ("evaluate", "sweep", "score", "judge"):
        command = crosscheck.get_command(context, name)
        assert command is not None
        assert field in {parameter.name for parameter in command.params}, name
    value = {"limit": 3}.get(field, "4-7")
    form = EvaluationForm.model_validate({field: value})
    assert f" --{field.replace('_', '-')} {value}" in form.command()
    assert field in Matrix.model_fields
    assert str(value) in QuestionSelection.model_validate({field: value}).in_words
