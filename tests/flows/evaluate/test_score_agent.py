"""`Crosscheck().score_agent`: a Python function as an agent, with the sandbox's protections, deadlines and retries."""

import asyncio
import concurrent.futures
import fcntl
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crosscheck import AgentDatabase, Crosscheck, CrosscheckError, Question
from flows.evaluate import score_agent as module
from flows.evaluate.score_agent import MAX_QUERIES, AgentStoppedError
from tests.support.demo import demo_golds, demo_questions

pytestmark = pytest.mark.slow

CANARY = "canary_of_the_gold"


@pytest.fixture
def crosscheck(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crosscheck]:
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    yield Crosscheck(home=home, quiet=True)
    shutil.rmtree(home / "agents", ignore_errors=True)


@pytest.fixture
def gold(home: Path) -> dict[str, str]:
    return demo_golds(home)


def kept(home: Path) -> list[dict[str, Any]]:
    (file,) = (home / "agents").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_the_queries_of_an_agent_are_its_turns_and_its_answer_the_last(
    crosscheck: Crosscheck, gold: dict[str, str], home: Path
) -> None:
    def analyst(question: Question, database: AgentDatabase) -> str:
        assert database.dialect == "sqlite" and "CREATE TABLE" in database.schema
        table, columns = next(iter(database.tables.items()))
        found = database.execute(f"SELECT * FROM {table}", rows=2)
        assert (found.columns, len(found.rows)) == (columns, 2) and (found.row_count or 0) > 2
        assert database.execute("SELECT no_such_column").error
        return f"It is this:\n```sql\n{gold[question.id]}\n```"

    run = crosscheck.score_agent(analyst, questions="1-4")
    assert (run.backbone, run.correct, run.total) == ("analyst", 4, 4)
    turns = run.metrics["turns"]
    assert (turns["turns"]["value"], turns["submitted"]["correct"]) == (3, 4)
    assert turns["tool_errors"] == {"correct": 4, "total": 8, "value": 0.5}
    assert [(each["fixed"], each["broken"]) for each in turns["curve"]] == [(None, None), (0, 0), (4, 0)]
    assert run.cost.calls is run.cost.input_tokens is run.cost.cost_usd is None
    assert run.predictions and Path(run.predictions["file"]).parent == home / "agents"
    assert {line["question_id"] for line in kept(home)} == {"1", "2", "3", "4"}


def test_an_async_agent_with_messages_has_tokens_and_the_sandbox_says_what_failed(
    crosscheck: Crosscheck, gold: dict[str, str]
) -> None:
    loops = set()

    async def analyst(question: Question, database: AgentDatabase) -> dict[str, Any]:
        loops.add(asyncio.get_running_loop())
        messages: list[dict[str, Any]] = []
        for place, sql in enumerate(("SELECT nothing", gold[question.id])):
            found = await database.execute_async(sql)
            function = {"name": "run_sql", "arguments": json.dumps({"sql": sql})}
            calls = [{"id": f"c{place}", "type": "function", "function": function}]
            usage = {"prompt_tokens": 50, "completion_tokens": 5}
            messages.append({"role": "assistant", "content": None, "tool_calls": calls, "usage": usage})
            messages.append({"role": "tool", "tool_call_id": f"c{place}", "content": found.error or "rows"})
        return {"messages": messages, "sql": gold[question.id]}

    run = crosscheck.score_agent(analyst, questions="1-6", concurrency=3)
    assert (run.correct, run.cost.calls, run.cost.input_tokens) == (6, 12, 600)
    assert run.metrics["turns"]["tool_errors"] == {"correct": 6, "total": 12, "value": 0.5}
    assert len(loops) == 1  # clients of a library can be shared by all questions


REFUSED = {
    "DROP TABLE work": "only lets a query read",
    "PRAGMA writable_schema = 1": "only lets",
    "ATTACH '/etc/passwd' AS other": "only lets",
    "SELECT load_extension('x')": "",
    "SELECT 1; DELETE FROM work": "",
}


def test_sql_that_does_more_than_read_is_refused(crosscheck: Crosscheck, home: Path) -> None:
    databases = {file: file.read_bytes() for file in home.rglob("*.sqlite") if "city_library" in file.name}
    results = []

    def hostile(question: Question, database: AgentDatabase) -> None:
        results.extend(database.execute(sql) for sql in REFUSED)

    crosscheck.score_agent(hostile, questions=[1])
    assert len(results) == len(REFUSED)
    for result, message in zip(results, REFUSED.values(), strict=True):
        assert not result.ok and message in result.error, message
    assert databases and all(file.read_bytes() == content for file, content in databases.items())


def test_an_agent_is_given_no_gold(home: Path, tmp_path: Path) -> None:
    mine = tmp_path / "home"
    shutil.copytree(home, mine)
    questions = [question | {"SQL": f"SELECT '{CANARY}'"} for question in demo_questions(home)]
    (mine / "benchmarks" / "demo" / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    given: list[str] = []

    def curious(question: Question, database: AgentDatabase) -> None:
        for table in database.tables:
            given.append(repr(database.execute(f"SELECT * FROM {table}", rows=50)))
        public = [name for name in dir(database) if not name.startswith("_")]
        given.extend(repr(getattr(database, name)) for name in public)
        given.append(repr(question) + repr(vars(database)))

    run = Crosscheck(home=mine, quiet=True).score_agent(curious, questions="1-3")
    assert run.total == 3 and len(given) > 20
    assert not any(CANARY in text for text in given)


def test_an_exception_is_retried_and_at_last_counts_as_wrong(
    crosscheck: Crosscheck, gold: dict[str, str], home: Path
) -> None:
    tries: dict[str, int] = {}

    def moody(question: Question, database: AgentDatabase) -> str:
        tries[question.id] = tries.get(question.id, 0) + 1
        database.execute("SELECT 1")
        if question.id == "2" or (question.id == "1" and tries["1"] < 3):
            raise ConnectionError("the endpoint is away")
        return gold[question.id]

    run = crosscheck.score_agent(moody, questions="1-3")
    assert (run.correct, run.total, run.failures) == (2, 3, {"extension_error": 1})
    assert run.failure_messages == {"extension_error": "ConnectionError: the endpoint is away (3 attempts)"}
    assert (tries, run.retryable) == ({"1": 3, "2": 3, "3": 1}, 0)
    turns = {line["question_id"]: len(line["turns"]) for line in kept(home)}
    assert turns == {"1": 2, "2": 1, "3": 2}  # those of the last attempt alone


@pytest.mark.parametrize(("error", "message", "is_async"), [
    (asyncio.CancelledError(), "CancelledError", True),
    (concurrent.futures.CancelledError(), "CancelledError", False),
    (StopIteration(), "StopIteration", False),
    (TimeoutError("the endpoint is slow"), "TimeoutError: the endpoint is slow", True),
])  # fmt: skip
def test_an_exception_that_means_something_else_to_a_future_is_one_of_the_agent(
    error: BaseException, message: str, is_async: bool, crosscheck: Crosscheck, gold: dict[str, str]
) -> None:
    def fails(question: Question, database: AgentDatabase) -> str:
        if question.id == "2":
            raise error
        return gold[question.id]

    async def fails_later(question: Question, database: AgentDatabase) -> str:
        return fails(question, database)

    started, agent = time.monotonic(), fails_later if is_async else fails
    run = crosscheck.score_agent(agent, questions="1-3", attempts=1, timeout_s=30, concurrency=1)
    assert time.monotonic() - started < 20
    assert (run.correct, run.total, run.failures) == (2, 3, {"extension_error": 1})
    assert message in run.failure_messages["extension_error"]
    assert "did not answer" not in run.failure_messages["extension_error"]


@pytest.mark.parametrize("blocking", [True, False])
def test_an_agent_that_takes_too_long_is_left_behind_and_gets_no_further_result(
    blocking: bool, crosscheck: Crosscheck, gold: dict[str, str]
) -> None:
    ended: list[str] = []

    def sleeps(question: Question, database: AgentDatabase) -> str:
        if question.id == "1":
            time.sleep(1.5)
            try:
                database.execute("SELECT 1")
            except AgentStoppedError as error:
                ended.append(str(error))
        return gold[question.id]

    async def waits(question: Question, database: AgentDatabase) -> str:
        if question.id == "1":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
        return gold[question.id]

    started = time.monotonic()
    run = crosscheck.score_agent(sleeps if blocking else waits, questions="1-3", timeout_s=0.5, attempts=1)
    assert time.monotonic() - started < 55
    assert (run.correct, run.failures) == (2, {"extension_error": 1})
    assert "did not answer within 0.5 s" in run.failure_messages["extension_error"]
    while not ended and time.monotonic() - started < 55:
        time.sleep(0.05)
    assert ended == (["the time for this question is over"] if blocking else ["cancelled"])


def test_a_query_has_the_deadline_of_the_benchmark_and_an_endless_loop_of_queries_a_limit(
    crosscheck: Crosscheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    found = []

    def heavy(question: Question, database: AgentDatabase) -> None:
        found.append(database.execute(loop))

    crosscheck.score_agent(heavy, questions=[1], settings={"benchmark.timeout_s": 0.5})
    assert [each.status for each in found] == ["timeout"]
    monkeypatch.setattr("flows.evaluate.score_agent.MAX_QUERIES", 20)
    assert MAX_QUERIES == 1_000

    def endless(question: Question, database: AgentDatabase) -> None:
        while database.execute("SELECT 1").ok:
            pass

    assert crosscheck.score_agent(endless, questions=[1]).metrics["turns"]["most"] == 20


CALLS_A_TEXT = {"messages": [{"role": "assistant", "tool_calls": [{"function": "f"}]}]}


@pytest.mark.parametrize(("answer", "message"), [
    (7, "the agent returned int: return the SQL as a text, None, or a dict"),
    ({"messages": [{"content": "x"}]}, "the agent's answer: messages.0.role: Field required"),
    ({"turns": [{"input_tokens": "9"}]}, "turns.0.input_tokens"),
    ({"messages": [threading.Lock()]}, "which JSON cannot write"),
    (CALLS_A_TEXT, "messages.0.tool_calls.0.function"),
    ({"question_id": 99, "turns": 3}, "turns"),
])  # fmt: skip
def test_an_answer_of_another_kind_is_named(answer: Any, message: str, crosscheck: Crosscheck) -> None:
    run = crosscheck.score_agent(lambda question, database: answer, questions=[1, 2], name="odd", attempts=1)
    assert run.correct == 0 and message in run.failure_messages["extension_error"]


def test_an_agent_that_always_fails_is_not_asked_every_question(crosscheck: Crosscheck) -> None:
    asked: list[str] = []

    def broken(question: Question, database: AgentDatabase) -> str:
        asked.append(question.id)
        raise SystemExit("no key")

    with pytest.raises(CrosscheckError, match=r"failed on the first 5 questions\. .*SystemExit: no key"):
        crosscheck.score_agent(broken, concurrency=1, attempts=1)
    assert len(asked) == 5


def test_a_file_is_continued_also_without_a_last_line_break_and_what_failed_is_asked_again(
    crosscheck: Crosscheck, gold: dict[str, str], tmp_path: Path
) -> None:
    file, asked, down = tmp_path / "mine.jsonl", [], True

    def analyst(question: Question, database: AgentDatabase) -> str:
        asked.append(question.id)
        if down and question.id == "2":
            raise ConnectionError("away")
        return gold[question.id]

    first = crosscheck.score_agent(analyst, questions="1-3", trajectories=file, attempts=1)
    assert (first.correct, first.total) == (2, 3)
    down = False
    file.write_text(file.read_text(encoding="utf-8") + '{"question_id": "4", "turns": [{', encoding="utf-8")
    asked.clear()
    again = crosscheck.score_agent(analyst, questions="1-4", trajectories=file, attempts=1)
    assert (again.correct, again.total, sorted(asked)) == (4, 4, ["2", "4"])
    assert any("Kept from an earlier call: 2 answers in " in note for note in again.notes)
    assert crosscheck.score(trajectories=file, questions="1-4").correct == 4
    asked.clear()
    file.write_text('{"question_id": "1", "turns": [], "sql": "SELECT 1"}', encoding="utf-8")

    def other(question: Question, database: AgentDatabase) -> str:
        asked.append(question.id)
        return "SELECT 2"

    assert crosscheck.score_agent(other, questions="1-2", trajectories=file).total == 2
    assert asked == ["2"] and len(file.read_text(encoding="utf-8").splitlines()) == 2


OF_ANOTHER_KIND = (
    '{"0": "SELECT 1"}',
    "id,sql\n1,SELECT 1\n",
    '{"context": {"trace_id": "0x1"}, "attributes": {"gen_ai.operation.name": "chat", "question_id": 1}}',
)


@pytest.mark.parametrize("content", OF_ANOTHER_KIND)
def test_a_file_of_another_kind_is_refused_and_left_as_it_is(
    content: str, crosscheck: Crosscheck, tmp_path: Path
) -> None:
    file = tmp_path / "predict_dev.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(CrosscheckError, match=r"predict_dev\.json"):
        crosscheck.score_agent(lambda question, database: None, questions=[1], trajectories=file)
    assert file.read_text(encoding="utf-8").rstrip("\n") == content.rstrip("\n")


def test_ctrl_c_ends_in_order_and_the_same_call_continues(
    crosscheck: Crosscheck, gold: dict[str, str], home: Path
) -> None:
    asked: list[str] = []

    def analyst(question: Question, database: AgentDatabase) -> str:
        asked.append(question.id)
        if len(asked) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        return gold[question.id]

    with pytest.raises(CrosscheckError, match=r"stopped\. The answers so far are in .*demo@analyst\.jsonl"):
        crosscheck.score_agent(analyst, questions="1-8", concurrency=1)
    assert len(kept(home)) == len(asked) == 3
    run = crosscheck.score_agent(analyst, questions="1-8", concurrency=1)
    assert (run.correct, run.total, len(asked)) == (8, 8, 8)
    crosscheck.score_agent(analyst, questions="1-8", concurrency=1)
    assert len(asked) == 16  # a call that has ended is not continued


@pytest.mark.parametrize(("name", "value"), [
    ("concurrency", 0), ("timeout_s", 0), ("attempts", True), ("concurrency", float("inf")), ("timeout_s", 1e12)
])  # fmt: skip
def test_a_setting_out_of_its_range_is_refused(name: str, value: Any, crosscheck: Crosscheck) -> None:
    with pytest.raises(CrosscheckError, match=f"{name}=.*: it must be a number from .* to 1,000,000"):
        crosscheck.score_agent(lambda question, database: None, **{name: value})


def test_what_cannot_be_called_and_a_name_in_use_are_refused(crosscheck: Crosscheck) -> None:
    for agent in ("SELECT 1", lambda question: "SELECT 1"):
        with pytest.raises(CrosscheckError, match="must be a function of a question and a database"):
            crosscheck.score_agent(agent, questions=[1])  # type: ignore[arg-type]

    def outer(question: Question, database: AgentDatabase) -> None:
        with pytest.raises(CrosscheckError, match="Another call is writing"):
            module.run_agent(outer, settings_of(crosscheck), module.Control())

    assert crosscheck.score_agent(outer, questions=[1], attempts=1).failures == {"no_answer": 1}


def test_a_file_that_was_completed_while_another_call_opened_it_gets_no_answer(
    crosscheck: Crosscheck, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, locked = settings_of(crosscheck), fcntl.flock

    def completed_first(opened: Any, how: int) -> None:
        Path(opened.name).rename(home / "agents" / "completed.jsonl")
        locked(opened, how)

    monkeypatch.setattr(fcntl, "flock", completed_first)
    with pytest.raises(CrosscheckError, match="Another call is writing"):
        module.run_agent(lambda question, database: "SELECT 1", settings, module.Control())
    assert (home / "agents" / "completed.jsonl").read_text(encoding="utf-8") == ""


def test_agents_with_similar_names_have_files_of_their_own(crosscheck: Crosscheck, home: Path) -> None:
    names = ("a/b", "a-b", "a b")
    for name in names:
        crosscheck.score_agent(lambda question, database: "SELECT 1", questions=[1], name=name)
    files = {file.name.rpartition("-")[0] for file in (home / "agents").glob("*.jsonl")}
    assert len(files) == len(names) and "demo@a-b" in files


def settings_of(crosscheck: Crosscheck) -> module.ScoredAgent:
    from tasks.settings.assemble import benchmark_settings
    from tasks.settings.choices import QuestionSelection

    return module.ScoredAgent(
        benchmark_settings("demo", ()), "outer", QuestionSelection(questions="1"), crosscheck._folders, None
    )
