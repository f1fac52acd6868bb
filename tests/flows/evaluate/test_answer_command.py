"""`crosscheck answer` as users run it: real processes, real SQLite files, a real API."""

import hashlib
import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import Body, FakeOpenAI, quota_exhausted, server_error, unauthorized
from tests.support.terminal import run_in_terminal

QUESTION = "How many ships have sailed?"


@pytest.fixture
def harbour(tmp_path: Path) -> Path:
    """A database with names and values that are hard to print."""
    path = tmp_path / "my harbour.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            """
            CREATE TABLE ship (id INTEGER PRIMARY KEY, "last [known] port" TEXT, tons REAL, chart BLOB);
            INSERT INTO ship VALUES (1, 'Genoa :anchor: [bold]', 9e999, x'00ff'), (2, NULL, 2.5, NULL);
            INSERT INTO ship VALUES (3, char(27) || '[31mred' || char(10) || 'two lines', 1.0, NULL);
            """
        )
    return path


@pytest.fixture
def ask(run_here: Callable[..., Ran], backbone_file: str, harbour: Path) -> Callable[..., Ran]:
    """Asks the question."""
    words = ("answer", QUESTION, "--database", str(harbour), "--backbone", backbone_file)
    return lambda *more: run_here(*words, *more)


def says(model: FakeOpenAI, sql: str | None) -> None:
    """Let the model answer every request for SQL with this, all others with nothing of use."""

    def answer(body: Body) -> str:
        return json.dumps({"sql": sql}) if '"sql"' in body["messages"][-1]["content"] else "{}"

    model.answer = answer


def digest(folder: Path) -> dict[str, str]:
    """What is in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.slow
def test_it_prints_the_sql_and_its_result_and_leaves_the_database_alone(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, harbour: Path
) -> None:
    says(model, 'SELECT id, "last [known] port" FROM ship WHERE id < 3 AND \':heart:\' <> "[x]" ORDER BY id')
    lying = harbour.parent / "db"
    lying.mkdir()
    harbour = harbour.rename(lying / harbour.name)
    before = digest(lying)
    ran = demo.run(
        "answer", QUESTION, "--database", str(harbour), "--backbone", backbone_file,
        "--evidence", "sailed refers to all ships", "--rows", "1",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert [line.rstrip() for line in ran.out.splitlines()] == [
        'SELECT id, "last [known] port" FROM ship WHERE id < 3 AND \':heart:\' <> "[x]" ORDER BY id',
        "",
        "id  last [known] port",
        "1   Genoa :anchor: [bold]",
        "",
        "2 rows, the first 1 shown",
    ]
    assert digest(lying) == before
    prompts = [request.prompt for request in model.requests]
    assert all(QUESTION in prompt for prompt in prompts)
    assert any("### Evidence\nsailed refers to all ships" in prompt for prompt in prompts)
    assert any("### Examples" in prompt for prompt in prompts)
    assert "Traceback" not in ran.err


def test_json_is_one_object_whatever_the_values_and_a_second_time_nothing_is_paid(
    ask: Callable[..., Ran], model: FakeOpenAI
) -> None:
    says(model, "SELECT tons, chart FROM ship ORDER BY id")
    plain = ("--demonstrations", "none", "--pipeline", "few-shot", "--json")
    first = ask(*plain)
    assert first.code == 0, first.err

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    answered = json.loads(first.out, parse_constant=refuse)
    assert answered["columns"] == ["tons", "chart"]
    assert answered["rows"] == [[str(math.inf), str(b"\x00\xff")], [2.5, None], [1.0, None]]
    assert (answered["status"], answered["error"], answered["row_count"]) == ("ok", None, 3)
    assert (answered["calls"], answered["cached_calls"]) == (1, 0)
    assert [stage["name"] for stage in answered["stages"]] == ["1_preliminary_sql"]
    assert "### Examples" not in model.requests[0].prompt
    again = ask(*plain).json
    assert (again["calls"], again["cached_calls"], len(model.requests)) == (0, 1, 1)


def test_the_eliminator_is_asked_here_too(
    ask: Callable[..., Ran], backbone_file: str, model: FakeOpenAI
) -> None:
    says(model, "SELECT tons FROM ship")
    ran = ask("--pipeline", "sea-sql", "--set", f"pipeline.eliminator={backbone_file}", "--json")
    assert ran.code == 0, ran.err
    assert "bias_elimination" in [stage["name"].partition("_")[2] for stage in ran.json["stages"]]


def test_without_demonstrations_no_benchmark_is_built(
    harbour: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    ran = in_process.run(
        "answer", "How many ships are there?", "--database", str(harbour), "--demonstrations", "none"
    )
    assert ran.code == 0, ran.err
    assert not (tmp_path / "home" / "benchmarks").exists()


@pytest.mark.parametrize(("sql", "heading", "error"), [
    ("SELECT mast FROM ship", "It does not run", "no such column: mast"),
    ("DELETE FROM ship", "It does not run", "DELETE from ship is not allowed"),
    (None, "No answer", "the backbone's replies held no SQL."),
])  # fmt: skip
def test_an_answer_that_does_not_run_exits_with_1_and_says_why(
    ask: Callable[..., Ran], model: FakeOpenAI, harbour: Path, sql: str | None, heading: str, error: str
) -> None:
    says(model, sql)
    before = harbour.read_bytes()
    ran = ask("--pipeline", "few-shot")
    assert ran.code == 1
    assert f"{heading}: " in ran.out and error in ran.out
    assert harbour.read_bytes() == before
    assert error in ask("--pipeline", "few-shot", "--json").json["error"]


def test_a_backbone_that_says_no_exits_with_2_where_a_setting_is_wrong_and_3_where_waiting_helps(
    ask: Callable[..., Ran], model: FakeOpenAI
) -> None:
    for behaviour, code, said in (
        (unauthorized(), 2, "key"),
        (quota_exhausted(), 2, "quota"),
        (server_error(), 3, "500"),
    ):
        model.always(behaviour)
        ran = ask("--set", "backbone.retries=0", "--demonstrations", "none")
        assert ran.code == code, ran.err
        assert said in ran.out + ran.err and "Traceback" not in ran.out + ran.err


@pytest.mark.slow
def test_a_result_wider_than_the_terminal_is_shown_a_value_to_a_line_and_never_obeyed(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, harbour: Path
) -> None:
    columns = ", ".join(f"'value {n}' AS \"column number {n}\"" for n in range(12))
    says(model, f'SELECT "last [known] port" AS port, {columns} FROM ship WHERE id = 3')
    code, screen = run_in_terminal(
        demo.command("answer", QUESTION, "--database", str(harbour), "--backbone", backbone_file,
                     "--pipeline", "few-shot"),
        demo.cwd,
        demo.all_of_environment | {"TERM": "xterm-256color"},
    )  # fmt: skip
    assert code == 0, screen.text
    lines = screen.text.splitlines()
    assert "port              ␛[31mred\\ntwo lines" in lines
    assert "column number 11  value 11" in lines
    assert lines[-1] == "1 row"
