"""Settings as parameters: flat, short, and without secrets."""

import pytest

from tasks.results.build_record import describe, new_run_id
from tasks.results.parameters import MAX_VALUE, flatten, redact


def test_settings_are_named_and_written_as_the_command_line_sets_them() -> None:
    assert flatten({"a": {"b": [1, "x"], "c": {}, "d": None, "e": True, "f": 5, "g": "both"}}) == {
        "a.b": '[1, "x"]', "a.c": "{}", "a.d": "null", "a.e": "true", "a.f": "5", "a.g": "both",
    }  # fmt: skip


def test_a_value_too_long_for_mlflow_is_cut_and_says_so() -> None:
    long = flatten({"benchmark": {"quarantine": ["é" * 20] * 1000}})["benchmark.quarantine"]
    assert len(long) == MAX_VALUE
    assert "24000 characters, sha256 " in long
    assert flatten({"a": "x" * MAX_VALUE})["a"] == "x" * MAX_VALUE


@pytest.mark.parametrize(
    "settings",
    [
        {"base_url": "https://me:hunter22@host/v1"},
        {"extra_body": {"Authorization": "Bearer hunter22"}},
        {"extra_body": {"nested": [{"api-key": "hunter22"}]}},
        {"extra_body": {"user": "id of hunter22"}},
    ],
)
def test_secrets_are_hidden(settings: dict[str, object]) -> None:
    assert "hunter22" not in str(redact(settings, "hunter22"))
    assert "***" in str(redact(settings, "hunter22"))


def test_what_only_sounds_like_a_secret_is_kept() -> None:
    harmless = {
        "api_key_env": "OPENAI_API_KEY",
        "max_tokens": 500,
        "max_tokens_field": "max_tokens",
        "token": None,
    }
    assert redact(harmless, "") == harmless


def test_the_key_itself_never_reaches_the_settings(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    questions = tmp_path / "dev.json"
    questions.write_text("[]")
    run = describe(
        {
            "benchmark": {"name": "b", "rule": "bird", "revision": "1"},
            "backbone": {
                "name": "m",
                "api_key_env": "SOME_API_KEY",
                "extra_body": {"note": "key sk-very-secret"},
            },
            "pipeline": {"name": "p"},
        },
        [questions],
        engine="",
    )
    assert "sk-very-secret" not in str(run)
    assert run.settings["backbone"]["api_key_env"] == "SOME_API_KEY"
    assert run.question_sha256 == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    assert run.name == "m | p"


def test_run_ids_sort_by_time_and_differ() -> None:
    first, second = new_run_id(), new_run_id()
    assert first != second
    assert first[:15] <= second[:15]
