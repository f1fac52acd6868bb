"""`crosscheck rerun` as users run it: what failed is asked again, everything else stays as it is."""

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tasks.results.warehouse.runs import Warehouse
from tests.support import in_process
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, quota_exhausted, reply
from tests.support.schedule import ask

pytestmark = pytest.mark.slow


FAILS_EARLY = """
from pathlib import Path

from flows.pipelines.rsl_sql import few_shot
from flows.pipelines.pipeline import pipeline
from tasks.settings.pipeline import FewShotSettings


@pipeline(FewShotSettings)
async def broken(question, context):
    if question.id == "0":
        raise ValueError(Path({said!r}).read_text(encoding="utf-8"))
    return await few_shot(question, context)
"""
OWN = {"attempts"}
"""Columns of the table that say how often was asked, not what was answered."""


def table(ran: Ran, tmp_path: Path) -> list[dict[str, Any]]:
    """The run's table of predictions, as MLflow has it."""
    facts = ran.json["mlflow"]
    file = MlflowClient(facts["tracking_uri"]).download_artifacts(
        facts["run_id"], "predictions.json", str(tmp_path)
    )
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


def answers(ran: Ran, tmp_path: Path) -> list[dict[str, Any]]:
    return [{name: cell for name, cell in row.items() if name not in OWN} for row in table(ran, tmp_path)]


def tags(ran: Ran) -> dict[str, str]:
    facts = ran.json["mlflow"]
    return dict(MlflowClient(facts["tracking_uri"]).get_run(facts["run_id"]).data.tags)


def one_in_twenty(body: Body) -> bool:
    return hashlib.sha256(str(body["messages"]).encode()).digest()[0] < 256 // 20


def test_a_night_with_failures_rerun_equals_a_night_without_question_by_question(
    demo: CommandLine,
    backbone_file: str,
    model: FakeOpenAI,
    built_demo: Path,
    prefect_server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ordinary = model.answer

    def fail_now_and_then(body: Body) -> str:
        if one_in_twenty(body):
            raise ConnectionError
        return ordinary(body)

    night = (
        "evaluate", "--backbone", backbone_file, "--limit", "12", "--set", "backbone.retries=0", "--json",
    )  # fmt: skip
    model.answer = fail_now_and_then
    broken = demo.run(*night)
    failed = broken.json["questions"] - broken.json["answered"]
    assert broken.code == 3, broken.err
    assert 0 < failed < 12

    model.answer = ordinary
    before = [str(request.body) for request in model.requests if not one_in_twenty(request.body)]
    resumed = demo.run("rerun", "latest", "--json")
    assert resumed.code == 0, resumed.err
    assert "Traceback" not in resumed.err
    again = [
        str(request.body) for request in model.requests[len(model.requests) - resumed.json["cost"]["calls"] :]
    ]
    assert not set(before) & set(again)

    other = tmp_path / "undisturbed"
    shutil.copytree(built_demo, other)
    undisturbed = in_process.served(other, prefect_server).run(*night)
    assert undisturbed.code == 0, undisturbed.err
    assert answers(resumed, tmp_path) == answers(undisturbed, tmp_path)
    for same in ("questions", "answered", "ex", "scores", "stages", "links", "failures", "by_difficulty"):
        assert resumed.json[same] == undisturbed.json[same], same

    facts = resumed.json["rerun"]
    assert facts["parent"] == broken.json["run_id"]
    assert facts["asked"] == facts["changed"] == facts["resolved"] == failed
    assert facts["rerolled"] is False
    assert list(facts["attempts"].values()) == [2] * failed
    assert (
        f"{failed} of 12 questions: {failed} repeated, 0 restored from earlier results. "
        f"{failed} answers changed" in resumed.err
    )
    assert sum(row["attempts"] == 2 for row in table(resumed, tmp_path)) == failed
    assert tags(resumed)["parent_run_id"] == broken.json["run_id"]
    assert tags(resumed)["parent_mlflow_run_id"] == broken.json["mlflow"]["run_id"]
    assert "rerolled" not in tags(resumed)

    kept = Warehouse(demo.home / "warehouse.duckdb").read_run(broken.json["run_id"])
    assert sum(row.outcome.failure is not None for row in kept.rows) == failed
    monkeypatch.setenv("CROSSCHECK_HOME", str(demo.home))
    nothing = in_process.run("rerun", resumed.json["run_id"], "--json")
    assert (nothing.code, nothing.json["rerun"]["asked"]) == (0, 0)


def test_rerolling_asks_the_model_anew_and_says_what_that_makes_of_the_score(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = demo.run(
        "evaluate", "--backbone", backbone_file, "--limit", "6", "--pipeline", "few-shot", "--json"
    )
    rows = Warehouse(demo.home / "warehouse.duckdb").read_run(first.json["run_id"]).rows
    wrong = [row.question.id for row in rows if not row.final.correct["bird"]]
    right = [row for row in rows if row.final.correct["bird"]]
    assert wrong and right

    model.answer = lambda body: '{"sql": "SELECT 1"}'
    asked = len(model.requests)
    rerolled = demo.run("rerun", first.json["run_id"][:15], "--only", "wrong", "--fresh", "--json")
    assert rerolled.code == 0, rerolled.err
    assert len(model.requests) - asked == rerolled.json["cost"]["calls"] == len(wrong)
    assert rerolled.json["rerun"]["attempt"] == 1
    assert rerolled.json["rerun"]["rerolled"] is True
    assert tags(rerolled)["rerolled"] == "true"
    assert "not comparable" in rerolled.err
    merged = Warehouse(demo.home / "warehouse.duckdb").read_run(rerolled.json["run_id"]).rows
    assert [row.outcome.sql for row in merged if row.question.id in wrong] == ["SELECT 1"] * len(wrong)
    assert [row.outcome.sql for row in merged if row.question.id not in wrong] == [
        r.outcome.sql for r in right
    ]
    assert rerolled.json["total"] == 6
    monkeypatch.setenv("CROSSCHECK_HOME", str(demo.home))
    compared = in_process.run("compare", "latest~1", "latest")
    assert compared.code == 0, compared.err
    assert "Not ranked: B had questions asked again after their answers were judged" in compared.out

    # A third sampling is another one again, of one answered question; the model fails, so the answer stays.
    def refuse(body: Body) -> str:
        raise ConnectionError

    model.answer = refuse
    one = right[0].question.id
    options = ("--questions", one, "--fresh", "--set", "backbone.retries=0", "--json")
    stays = demo.run("rerun", rerolled.json["run_id"], *options)
    assert stays.json["rerun"]["attempt"] == 2
    assert stays.json["rerun"]["kept"] == 1
    assert stays.json["rerun"]["changed"] == 0
    assert stays.json["ex"] == rerolled.json["ex"]
    assert stays.code == 3, stays.err
    assert "1 of 1 selected questions failed now and keep the answer that they had" in stays.err


def test_what_a_failed_attempt_paid_is_in_the_cost_of_its_re_run_and_of_no_other(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = demo.run("evaluate", "--backbone", backbone_file, "--limit", "2", "--json")
    assert first.code == 0, first.err
    warehouse = Warehouse(demo.home / "warehouse.duckdb")
    before = warehouse.read_run(first.json["run_id"]).rows
    ordinary, answered = model.answer, len(model.requests) + 2

    def fail_after_two(body: Body) -> str:
        if len(model.requests) > answered:
            raise ConnectionError
        return ordinary(body)

    model.answer = fail_after_two
    again = ("--questions", before[0].question.id, "--fresh", "--set", "backbone.retries=0", "--json")
    ran = demo.run("rerun", "latest", *again)
    assert (ran.code, ran.json["rerun"]["kept"]) == (3, 1), ran.err
    assert (ran.json["cost"]["calls"], ran.json["cost"]["cost_usd"] > 0) == (2, True)
    assert "what they cost is counted under failed_attempt" in ran.err
    kept, *others = warehouse.read_run(ran.json["run_id"]).rows
    *old, failed = kept.outcome.stages
    assert [record.label for record in old] == [record.label for record in before[0].outcome.stages]
    assert all(record.restored for row in others for record in (*old, *row.outcome.stages))
    assert (failed.label, failed.restored, len(failed.calls)) == ("failed_attempt 2", False, 2)
    assert "connection failed" in failed.error

    monkeypatch.setenv("CROSSCHECK_HOME", str(demo.home))
    shown = in_process.run("show", "latest", kept.question.id)
    assert shown.code == 0, shown.err
    assert "failed_attempt 2  2 calls" in shown.out
    assert in_process.run("rerun", "latest", "--from", "failed_attempt", *again).code == 2

    model.answer = ordinary
    later = demo.run("rerun", "latest", "--questions", others[0].question.id, "--fresh", "--json")
    assert later.code == 0, later.err
    stages = warehouse.read_run(later.json["run_id"]).rows[0].outcome.stages
    assert [record.label for record in stages] == [record.label for record in old]


def test_what_is_paid_where_every_question_fails_is_said_and_in_runs_and_not_paid_again(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = ("evaluate", "--backbone", backbone_file, "--limit", "2", "--json")
    words = ("rerun", "latest", "--questions", "0-1", "--fresh", "--set", "backbone.concurrency=1", "--json")
    assert demo.run(*evaluate).code == 0
    before = len(model.requests)
    model.script(Behaviour(), Behaviour())
    model.always(quota_exhausted())
    ran = demo.run(*words)
    assert (ran.code, ran.out) == (3, ""), ran.err
    failed, *_ = Warehouse(demo.home / "warehouse.duckdb").runs()
    assert failed.status == "failed"
    assert f"Paid until then, by run {failed.run_id}: 2 calls, cost $0.00" in ran.err
    monkeypatch.setenv("CROSSCHECK_HOME", str(demo.home))
    sql = f"SELECT calls, cost_usd FROM runs WHERE run_id = '{failed.run_id}'"
    (row,) = in_process.run("query", sql, "--json").json["rows"]
    assert row["calls"] == 2 and f"cost ${row['cost_usd']:.4f}." in ran.err

    model.always(None)
    paid = [str(request.body) for request in model.requests[before : before + 2]]
    asked = len(model.requests)
    later = demo.run(*words)
    assert later.code == 0, later.err
    assert not set(paid) & {str(request.body) for request in model.requests[asked:]}


def test_a_fresh_re_run_with_retryable_failures_is_continued_by_the_same_command(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    first = demo.run("evaluate", "--backbone", backbone_file, "--limit", "3", "--json")
    assert first.code == 0, first.err
    warehouse = Warehouse(demo.home / "warehouse.duckdb")
    texts = [row.question.text for row in warehouse.read_run(first.json["run_id"]).rows]
    ordinary, failing, answered = model.answer, set(texts[1:]), Counter[str]()

    def fail_after_two(body: Body) -> str:
        said = str(body["messages"])
        for text in failing:
            if text in said:
                answered[text] += 1
                if answered[text] > 2:
                    raise ConnectionError
        return ordinary(body)

    def again(run: str, *set_: str) -> tuple[Ran, int]:
        before = len(model.requests)
        options = ("--questions", "0-2", "--fresh", "--set", "backbone.retries=0", "--json")
        ran = demo.run("rerun", run, *options, *set_)
        return ran, len(model.requests) - before

    model.answer = fail_after_two
    half, _ = again(first.json["run_id"])
    facts = half.json["rerun"]
    assert (half.code, facts["attempt"], facts["kept"], facts["no_new_answer"]) == (3, 1, 2, 2), half.err
    assert "2 of 3 selected questions failed now and keep the answer that they had" in half.err
    assert "2 of 3 selected questions have no new answer for a reason that can be retried" in half.err

    failing.discard(texts[1])
    more, _ = again(first.json["run_id"], "--set", "backbone.concurrency=1")
    facts = more.json["rerun"]
    assert (more.code, facts["attempt"], facts["restored"], facts["asked"]) == (3, 1, 1, 2), more.err
    assert (facts["kept"], facts["no_new_answer"]) == (1, 1)

    model.answer = ordinary
    whole, requests = again("latest")
    facts = whole.json["rerun"]
    assert (whole.code, facts["attempt"], facts["restored"], facts["asked"]) == (0, 1, 2, 1), whole.err
    assert (facts["kept"], facts["no_new_answer"], whole.json["cost"]["calls"]) == (0, 0, requests)
    assert [row.outcome.samples for row in warehouse.read_run(whole.json["run_id"]).rows] == [(1,)] * 3

    # The next one is a new sampling, and shows what one costs that nothing disturbs.
    undisturbed, requests = again("latest")
    facts = undisturbed.json["rerun"]
    assert (undisturbed.code, facts["attempt"], facts["asked"]) == (0, 2, 3), undisturbed.err
    parts = [half.json, more.json, whole.json]
    assert sum(part["cost"]["calls"] for part in parts) == undisturbed.json["cost"]["calls"] == requests
    assert sum(part["cost"]["cost_usd"] for part in parts) == pytest.approx(
        undisturbed.json["cost"]["cost_usd"]
    )


def test_a_continued_re_run_is_rerolled_where_what_was_answered_before_is_as_it_was(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.script(Behaviour(), Behaviour(drop=True))
    single = ("--set", "backbone.retries=0", "--set", "backbone.concurrency=1", "--json")
    evaluate = ("evaluate", "--backbone", backbone_file, "--pipeline", "zero-shot", "--limit", "2", *single)
    first = demo.run(*evaluate)
    assert (first.code, first.json["answered"]) == (3, 1), first.err
    again = ("rerun", first.json["run_id"], "--questions", "0-1", "--fresh", *single)
    model.script(Behaviour(), Behaviour(drop=True))
    half = demo.run(*again)
    facts = half.json["rerun"]
    assert (half.code, facts["kept"], facts["still_failed"], facts["no_new_answer"]) == (3, 0, 1, 1), half.err

    asked = len(model.requests)
    whole = demo.run(*again)
    facts = whole.json["rerun"]
    assert (whole.code, facts["attempt"], len(model.requests) - asked) == (0, 1, 1), whole.err
    assert (facts["restored"], facts["changed"], facts["resolved"]) == (1, 1, 1)
    assert whole.json["tags"]["rerolled"] == "true"


def last_state(api: str, flow: str) -> tuple[str, str, str]:
    """Type, name and message of the final state of the latest run of a flow, which is tagged as unanswered."""
    wanted = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_DESC", "limit": 1}
    (found,) = ask(f"{api}/flow_runs/filter", wanted)
    assert "unanswered" in found["tags"]
    return found["state"]["type"], found["state"]["name"], found["state"]["message"]


def test_a_question_that_fails_before_its_first_stage_was_asked(
    demo: CommandLine, prefect_server: str, tmp_path: Path
) -> None:
    said, pipeline = tmp_path / "said.txt", tmp_path / "broken.py"
    pipeline.write_text(FAILS_EARLY.format(said=str(said)), encoding="utf-8")
    said.write_text("first", encoding="utf-8")
    first = demo.run("evaluate", "--pipeline", f"{pipeline}:broken", "--limit", "2", "--json")
    assert first.json["failures"] == {"extension_error": 1}
    said.write_text("second", encoding="utf-8")
    ran = demo.run("rerun", "latest", "--json")
    facts = ran.json["rerun"]
    assert (facts["selected"], facts["asked"], facts["still_failed"]) == (1, 1, 1), ran.err
    assert (ran.code, facts["no_new_answer"]) == (3, 1), "the user can correct it"
    assert last_state(prefect_server, "evaluate")[:2] == ("COMPLETED", "Unanswered")
    kind, name, message = last_state(prefect_server, "rerun")
    assert (kind, name) == ("FAILED", "Unanswered")
    assert message.startswith("1 of 1 question still failed; EX ")
    (lost, _) = Warehouse(demo.home / "warehouse.duckdb").read_run(ran.json["run_id"]).rows
    assert lost.outcome.failure is not None
    assert lost.outcome.failure.message.endswith("ValueError: second")
    assert f"{pipeline}:" in lost.outcome.failure.message and lost.outcome.attempts == 2


def test_questions_that_a_re_run_does_not_come_to_are_as_they_were(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    first = demo.run(
        "evaluate", "--backbone", backbone_file, "--pipeline", "zero-shot", "--limit", "6", "--json"
    )
    assert first.code == 0, first.err
    asked = len(model.requests)
    model.script(reply('{"sql": "SELECT 1"}'))
    model.always(quota_exhausted())
    single = ("--questions", "0-5", "--fresh", "--set", "backbone.concurrency=1", "--json")
    ran = demo.run("rerun", "latest", *single)
    assert ran.code == 3, ran.err
    facts = ran.json["rerun"]
    assert facts["no_new_answer"] == 5, ran.err
    assert len(model.requests) - asked == facts["asked"] < facts["selected"] == 6, ran.err
    assert facts["attempts"] == dict.fromkeys(("0", "1", "2", "3"), 2), "three prompts are refused"


def test_from_drops_a_stage_and_what_follows_and_keeps_what_was_before(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    first = demo.run("evaluate", "--backbone", backbone_file, "--limit", "3", "--json")
    assert first.code == 0, first.err
    asked = len(model.requests)
    ran = demo.run("rerun", "latest", "--questions", "0-1", "--from", "augmented_sql", "--fresh", "--json")
    assert ran.code == 0, ran.err
    rows = Warehouse(demo.home / "warehouse.duckdb").read_run(ran.json["run_id"]).rows
    for row in rows:
        labels = [record.label for record in row.outcome.stages]
        restored = [record.label for record in row.outcome.stages if record.restored]
        redone = row.question.id in ran.json["rerun"]["attempts"]
        assert restored == (labels[: labels.index("augmented_sql")] if redone else labels)
        assert row.outcome.samples == ((0, 1) if redone else (0,))
    assert len(model.requests) - asked == ran.json["cost"]["calls"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rerun", "latest", "--set", "pipeline.selection.shortcut=true"), "evaluate again"),
        (("rerun", "latest", "--set", "backbone.concurrency=none"), "backbone.concurrency"),
        (("rerun", "latest", "--from", "binary_selektion"), 'Did you mean "binary_selection"?'),
        (("rerun", "nosuchrun"), "crosscheck runs"),
        (("rerun", "latest", "--questions", "99999"), "99999"),
    ],
)
def test_a_users_error_is_one_message_that_says_how_to_mend_it(
    evaluated: Path, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(evaluated))
    ran = in_process.run(*arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""
    assert "Traceback" not in ran.err


@pytest.fixture(scope="module")
def evaluated(built_demo: Path, prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with one finished run of three questions."""
    home = tmp_path_factory.mktemp("evaluated")
    shutil.copytree(built_demo, home, dirs_exist_ok=True)
    ran = in_process.served(home, prefect_server).run("evaluate", "--limit", "3", "--json")
    assert ran.code == 0, ran.err
    return home


def test_a_rerun_that_restores_every_answer_asks_nothing_says_so_and_is_not_rerolled(
    evaluated: Path, prefect_server: str
) -> None:
    line = in_process.served(evaluated, prefect_server)
    ran = line.run("rerun", "latest", "--questions", "0-1", "--json")
    assert ran.code == 0, ran.err
    facts = ran.json["rerun"]
    assert (facts["selected"], facts["restored"], facts["asked"], facts["changed"]) == (2, 2, 0, 0)
    assert (facts["rerolled"], facts["attempts"], ran.json["cost"]["calls"]) == (False, {}, 0)
    assert "2 of 3 questions: 0 repeated, 2 restored" in ran.err
    assert "Nothing was repeated" in ran.err and "--fresh" in ran.err
    assert "not comparable" not in ran.err
    assert "rerolled" not in tags(ran) and "rerolled" not in ran.json["tags"]
    again = line.run("rerun", "latest", "--questions", "0", "--from", "forward_link", "--json")
    assert (again.json["rerun"]["asked"], again.json["rerun"]["rerolled"]) == (1, True)
    assert tags(again)["rerolled"] == again.json["tags"]["rerolled"] == "true"
    stored = Warehouse(evaluated / "warehouse.duckdb").read_run(again.json["run_id"])
    assert stored.tags["rerolled"] == "true"
    inherited = line.run("rerun", again.json["run_id"], "--questions", "1", "--json")
    assert (inherited.json["rerun"]["asked"], inherited.json["rerun"]["rerolled"]) == (0, True)
