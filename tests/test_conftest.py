"""The test suite's own ground rules."""

import os
from pathlib import Path
from unittest import mock

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py").read_text()


def run_with(pytester: pytest.Pytester, test: str) -> pytest.RunResult:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    shared_data: needs data")
    pytester.makepyfile(test)
    with mock.patch.dict(os.environ):  # the hook of conftest.py changes it
        return pytester.runpytest_inprocess("-q", "-rs", "-p", "no:cacheprovider")


def test_no_test_sees_the_developers_keys_or_servers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY", "MLFLOW_TRACKING_URI", "PREFECT_API_URL"):
        monkeypatch.setenv(name, "http://real")
    monkeypatch.setenv("CROSSCHECK_HOME", "/home/real")
    run_with(
        pytester,
        """
        import os
        def test_environment():
            assert "http://real" not in os.environ.values()
            assert "crosscheck-tests-" in os.environ["CROSSCHECK_HOME"]
    """,
    ).assert_outcomes(passed=1)


def test_absent_shared_data_skips_and_says_where_to_get_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_DATA", "/nowhere")
    monkeypatch.delenv("CROSSCHECK_REQUIRE_SHARED", raising=False)
    result = run_with(pytester, "def test_it(shared_data): pass")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no benchmark data at /nowhere*bird-bench*"])


def test_absent_shared_data_fails_where_it_is_required(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_DATA", "/nowhere")
    monkeypatch.setenv("CROSSCHECK_REQUIRE_SHARED", "1")
    run_with(pytester, "def test_it(shared_data): pass").assert_outcomes(errors=1)


def test_the_home_is_a_temporary_folder_here_too() -> None:
    assert "crosscheck-tests-" in os.environ["CROSSCHECK_HOME"]
