"""`crosscheck rerun` as users run it: what failed is asked again, everything else stays as it is."""

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.scores import QuestionScore
from tasks.settings.home import find_conf
from tests.support import in_process
from tests.support.command_line import CommandLine, Ran, finish
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, quota_exhausted, reply
from tests.support.schedule import ask

pytestmark = pytest.mark.slow


FAILS_EARLY = """
from pathlib import Path

from flows.pipelines.one_call import few_shot
from flows.pipelines.pipeline import pipeline
from tasks.settings.pipeline import FewShotSettings


@pipeline(FewShotSettings)
async def broken(question, context):
    if question.id == "0":
        raise ValueError(Path({said!r}).read_text(encoding="utf-8"))
    return await few_shot(question, context)
"""
ONE_AT_A_TIME = ("--set", "backbone.concurrency=1")
NO_RETRY = ("--set", "backbone.retries=0")


class Line:
    """Evaluates and asks again with a model at a local server."""

    def __init__(self, demo: CommandLine, backbone: str) -> None:
        self.demo = demo
        self.backbone = backbone
        self.warehouse = Warehouse(demo.home / "warehouse.duckdb")

    def evaluate(self, limit: int, *more: str, code: int = 0) -> Ran:
        ran = self.demo.run("evaluate", "--backbone", self.backbone, "--limit", str(limit), "--json", *more)
        assert ran.code == code, ran.err
        return ran

    def rerun(self, run: Ran | str, *more: str) -> Ran:
        name = run if isinstance(run, str) else run.json["run_id"]
        return self.demo.run("rerun", name, "--json", *more)

    def rows(self, ran: Ran) -> Sequence[QuestionScore]:
        return self.warehouse.read_run(ran.json["run_id"]).rows


@pytest.fixture
def line(demo: CommandLine, backbone_file: str) -> Line:
    return Line(demo, backbone_file)


def facts_of(ran: Ran, *names: str) -> tuple[Any, ...]:
    """The exit code, and facts of the re-run."""
    return ran.code, *(ran.json["rerun"][name] for name in names)


def drop(body: Body) -> str:
    raise ConnectionError


def table(ran: Ran, tmp_path: Path) -> list[dict[str, Any]]:
    """The run's table of predictions, as MLflow has it."""
    facts = ran.json["mlflow"]
    file = MlflowClient(facts["tracking_uri"]).download_artifacts(
        facts["run_id"], "predictions.json", str(tmp_path)
    )
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


def answers(ran: Ran, tmp_path: Path) -> list[dict[str, Any]]:
    """The table without how often was asked."""
    return [{name: cell for name, cell in row.items() if name != "attempts"} for row in table(ran, tmp_path)]


def tags(ran: Ran) -> dict[str, str]:
    facts = ran.json["mlflow"]
    return dict(MlflowClient(facts["tracking_uri"]).get_run(facts["run_id"]).data.tags)


def one_in_twenty(body: Body) -> bool:
    return hashlib.sha256(str(body["messages"]).encode()).digest()[0] < 256 // 20


def test_a_night_with_failures_rerun_equals_a_night_without_question_by_question(
    line: Line, model: FakeOpenAI, built_demo: Path, prefect_server: str, tmp_path: Path
) -> None:
    ordinary = model.answer
    model.answer = lambda body: drop(body) if one_in_twenty(body) else ordinary(body)
    broken = line.evaluate(12, *NO_RETRY, code=3)
    failed = broken.json["questions"] - broken.json["answered"]
    assert 0 < failed < 12

    model.answer = ordinary
    before = [str(request.body) for request in model.requests if not one_in_twenty(request.body)]
    resumed = line.rerun("latest")
    assert resumed.code == 0 and "Traceback" not in resumed.err, resumed.err
    asked = model.requests[len(model.requests) - resumed.json["cost"]["calls"] :]
    assert not set(before) & {str(request.body) for request in asked}

    other = in_process.served(Path(shutil.copytree(built_demo, tmp_path / "undisturbed")), prefect_server)
    undisturbed = Line(other, line.backbone).evaluate(12, *NO_RETRY)
    assert answers(resumed, tmp_path) == answers(undisturbed, tmp_path)
    for same in ("questions", "answered", "ex", "scores", "stages", "links", "failures", "by_difficulty"):
        assert resumed.json[same] == undisturbed.json[same], same

    facts = resumed.json["rerun"]
    assert (facts["parent"], facts["rerolled"]) == (broken.json["run_id"], False)
    assert facts["asked"] == facts["changed"] == facts["resolved"] == failed
    assert list(facts["attempts"].values()) == [2] * failed
    said = f"{failed} of 12 questions: {failed} repeated, 0 restored from earlier results. {failed} answers changed"
    assert said in resumed.err
    assert sum(row["attempts"] == 2 for row in table(resumed, tmp_path)) == failed
    assert tags(resumed)["parent_run_id"] == broken.json["run_id"]
    assert tags(resumed)["parent_mlflow_run_id"] == broken.json["mlflow"]["run_id"]
    assert "rerolled" not in tags(resumed)
    assert sum(row.outcome.failure is not None for row in line.rows(broken)) == failed
    assert facts_of(line.rerun(resumed), "asked") == (0, 0)


def test_rerolling_asks_the_model_anew_and_says_what_that_makes_of_the_score(
    line: Line, model: FakeOpenAI
) -> None:
    first = line.evaluate(6, "--pipeline", "few-shot")
    rows = line.rows(first)
    wrong = [row.question.id for row in rows if not row.final.correct["bird"]]
    right = [row for row in rows if row.final.correct["bird"]]
    assert wrong and right

    model.answer = lambda body: '{"sql": "SELECT 1"}'
    asked = len(model.requests)
    rerolled = line.rerun(first.json["run_id"][:15], "--only", "wrong", "--fresh")
    assert facts_of(rerolled, "attempt", "rerolled") == (0, 1, True), rerolled.err
    assert len(model.requests) - asked == rerolled.json["cost"]["calls"] == len(wrong)
    assert tags(rerolled)["rerolled"] == "true" and "not comparable" in rerolled.err
    merged = {row.question.id: row.outcome.sql for row in line.rows(rerolled)}
    expected = {row.question.id: row.outcome.sql for row in right} | dict.fromkeys(wrong, "SELECT 1")
    assert merged == expected and rerolled.json["total"] == 6
    compared = line.demo.run("compare", "latest~1", "latest")
    assert compared.code == 0, compared.err
    assert "Not ranked: B had questions asked again after their answers were judged" in compared.out

    # A third sampling is another one again, of one answered question; the model fails, so the answer stays.
    model.answer = drop
    stays = line.rerun(rerolled, "--questions", right[0].question.id, "--fresh", *NO_RETRY)
    assert facts_of(stays, "attempt", "kept", "changed") == (3, 2, 1, 0), stays.err
    assert stays.json["ex"] == rerolled.json["ex"]
    assert "1 of 1 selected questions failed now and keep the answer that they had" in stays.err


def test_what_a_failed_attempt_paid_is_in_the_cost_of_its_re_run_and_of_no_other(
    line: Line, model: FakeOpenAI
) -> None:
    before = line.rows(line.evaluate(2))
    ordinary, answered = model.answer, len(model.requests) + 2
    model.answer = lambda body: drop(body) if len(model.requests) > answered else ordinary(body)
    again = ("--questions", before[0].question.id, "--fresh", *NO_RETRY)
    ran = line.rerun("latest", *again)
    assert facts_of(ran, "kept") == (3, 1), ran.err
    assert (ran.json["cost"]["calls"], ran.json["cost"]["cost_usd"] > 0) == (2, True)
    assert "what they cost is counted under failed_attempt" in ran.err
    kept, *others = line.rows(ran)
    *old, failed = kept.outcome.stages
    labels = [record.label for record in old]
    assert labels == [record.label for record in before[0].outcome.stages]
    assert all(record.restored for row in others for record in (*old, *row.outcome.stages))
    assert (failed.label, failed.restored, len(failed.calls)) == ("failed_attempt 2", False, 2)
    assert "connection failed" in failed.error
    shown = line.demo.run("show", "latest", kept.question.id)
    assert shown.code == 0 and "failed_attempt 2  2 calls" in shown.out, shown.err
    assert line.rerun("latest", "--from", "failed_attempt", *again).code == 2

    model.answer = ordinary
    later = line.rerun("latest", "--questions", others[0].question.id, "--fresh")
    assert later.code == 0, later.err
    assert [record.label for record in line.rows(later)[0].outcome.stages] == labels


def test_what_is_paid_where_every_question_fails_is_said_and_in_runs_and_not_paid_again(
    line: Line, model: FakeOpenAI
) -> None:
    words = ("--questions", "0-1", "--fresh", *ONE_AT_A_TIME)
    line.evaluate(2)
    before = len(model.requests)
    model.script(Behaviour(), Behaviour())
    model.always(quota_exhausted())
    ran = line.rerun("latest", *words)
    assert (ran.code, ran.out) == (3, ""), ran.err
    failed, *_ = line.warehouse.runs()
    assert failed.status == "failed"
    assert f"Paid until then, by run {failed.run_id}: 2 calls, cost $0.00" in ran.err
    sql = f"SELECT calls, cost_usd FROM runs WHERE run_id = '{failed.run_id}'"
    (row,) = line.demo.run("query", sql, "--json").json["rows"]
    assert row["calls"] == 2 and f"cost ${row['cost_usd']:.4f}." in ran.err

    model.always(None)
    paid = {str(request.body) for request in model.requests[before : before + 2]}
    asked = len(model.requests)
    later = line.rerun("latest", *words)
    assert later.code == 0, later.err
    assert not paid & {str(request.body) for request in model.requests[asked:]}


def test_a_fresh_re_run_with_retryable_failures_is_continued_by_the_same_command(
    line: Line, model: FakeOpenAI
) -> None:
    first = line.evaluate(3)
    texts = [row.question.text for row in line.rows(first)]
    ordinary, failing, answered = model.answer, set(texts[1:]), Counter[str]()

    def fail_after_two(body: Body) -> str:
        for text in failing:
            if text in str(body["messages"]):
                answered[text] += 1
                if answered[text] > 2:
                    raise ConnectionError
        return ordinary(body)

    again = ("--questions", "0-2", "--fresh", *NO_RETRY)
    model.answer = fail_after_two
    half = line.rerun(first, *again)
    assert facts_of(half, "attempt", "kept", "no_new_answer") == (3, 1, 2, 2), half.err
    assert "2 of 3 selected questions failed now and keep the answer that they had" in half.err
    assert "2 of 3 selected questions have no new answer for a reason that can be retried" in half.err

    counts = ("attempt", "restored", "asked", "kept", "no_new_answer")
    failing.discard(texts[1])
    more = line.rerun(first, *again, *ONE_AT_A_TIME)
    assert facts_of(more, *counts) == (3, 1, 1, 2, 1, 1), more.err

    model.answer = ordinary
    sent = len(model.requests)
    whole = line.rerun("latest", *again)
    assert facts_of(whole, *counts) == (0, 1, 2, 1, 0, 0), whole.err
    assert whole.json["cost"]["calls"] == len(model.requests) - sent
    assert [row.outcome.samples for row in line.rows(whole)] == [(1,)] * 3

    # The next one is a new sampling, and shows what one costs that nothing disturbs.
    sent = len(model.requests)
    undisturbed = line.rerun("latest", *again)
    assert facts_of(undisturbed, "attempt", "asked") == (0, 2, 3), undisturbed.err
    parts, cost = [ran.json["cost"] for ran in (half, more, whole)], undisturbed.json["cost"]
    assert sum(part["calls"] for part in parts) == cost["calls"] == len(model.requests) - sent
    assert sum(part["cost_usd"] for part in parts) == pytest.approx(cost["cost_usd"])


def test_a_continued_re_run_is_rerolled_where_what_was_answered_before_is_as_it_was(
    line: Line, model: FakeOpenAI
) -> None:
    single = (*NO_RETRY, *ONE_AT_A_TIME)
    model.script(Behaviour(), Behaviour(drop=True))
    first = line.evaluate(2, "--pipeline", "zero-shot", *single, code=3)
    assert first.json["answered"] == 1
    again = ("--questions", "0-1", "--fresh", *single)
    model.script(Behaviour(), Behaviour(drop=True))
    half = line.rerun(first, *again)
    assert facts_of(half, "kept", "still_failed", "no_new_answer") == (3, 0, 1, 1), half.err

    asked = len(model.requests)
    whole = line.rerun(first, *again)
    assert facts_of(whole, "attempt", "restored", "changed", "resolved") == (0, 1, 1, 1, 1), whole.err
    assert len(model.requests) - asked == 1
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


def test_questions_that_a_re_run_does_not_come_to_are_as_they_were(line: Line, model: FakeOpenAI) -> None:
    line.evaluate(6, "--pipeline", "zero-shot")
    asked = len(model.requests)
    model.script(reply('{"sql": "SELECT 1"}'))
    model.always(quota_exhausted())
    ran = line.rerun("latest", "--questions", "0-5", "--fresh", *ONE_AT_A_TIME)
    assert facts_of(ran, "no_new_answer", "selected") == (3, 5, 6), ran.err
    facts = ran.json["rerun"]
    assert len(model.requests) - asked == facts["asked"] < 6, ran.err
    assert facts["attempts"] == dict.fromkeys(("0", "1", "2", "3"), 2), "three prompts are refused"


def test_from_drops_a_stage_and_what_follows_and_keeps_what_was_before(line: Line, model: FakeOpenAI) -> None:
    line.evaluate(3)
    asked = len(model.requests)
    ran = line.rerun("latest", "--questions", "0-1", "--from", "augmented_sql", "--fresh")
    assert ran.code == 0, ran.err
    for row in line.rows(ran):
        labels = [record.label for record in row.outcome.stages]
        restored = [record.label for record in row.outcome.stages if record.restored]
        redone = row.question.id in ran.json["rerun"]["attempts"]
        assert restored == (labels[: labels.index("augmented_sql")] if redone else labels)
        assert row.outcome.samples == ((0, 1) if redone else (0,))
    assert len(model.requests) - asked == ran.json["cost"]["calls"] > 0


@pytest.mark.parametrize(("arguments", "said"), [
    (("latest", "--set", "pipeline.selection.shortcut=true"), "evaluate again"),
    (("latest", "--set", "backbone.concurrency=none"), "backbone.concurrency"),
    (("latest", "--from", "binary_selektion"), 'Did you mean "binary_selection"?'),
    (("nosuchrun",), "crosscheck runs"),
    (("latest", "--questions", "99999"), "99999"),
])  # fmt: skip
def test_a_users_error_is_one_message_that_says_how_to_mend_it(
    evaluated: Line, arguments: tuple[str, ...], said: str
) -> None:
    evaluated.rerun(*arguments).assert_refused(said)


@pytest.fixture(scope="module")
def evaluated(built_demo: Path, prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A working folder with one finished run of three questions."""
    home = Path(shutil.copytree(built_demo, tmp_path_factory.mktemp("evaluated") / "home"))
    line = Line(in_process.served(home, prefect_server), "offline")
    line.evaluate(3)
    return line


def test_a_rerun_that_restores_every_answer_asks_nothing_says_so_and_is_not_rerolled(evaluated: Line) -> None:
    ran = evaluated.rerun("latest", "--questions", "0-1")
    names = ("selected", "restored", "asked", "changed", "rerolled", "attempts")
    assert facts_of(ran, *names) == (0, 2, 2, 0, 0, False, {}), ran.err
    assert ran.json["cost"]["calls"] == 0
    assert "2 of 3 questions: 0 repeated, 2 restored" in ran.err
    assert "Nothing was repeated" in ran.err and "--fresh" in ran.err and "not comparable" not in ran.err
    assert "rerolled" not in tags(ran) and "rerolled" not in ran.json["tags"]
    again = evaluated.rerun("latest", "--questions", "0", "--from", "forward_link")
    assert facts_of(again, "asked", "rerolled") == (0, 1, True)
    assert tags(again)["rerolled"] == again.json["tags"]["rerolled"] == "true"
    assert evaluated.warehouse.read_run(again.json["run_id"]).tags["rerolled"] == "true"
    inherited = evaluated.rerun(again, "--questions", "1")
    assert facts_of(inherited, "asked", "rerolled") == (0, 0, True)


OWN_PIPELINE = """
from flows.pipelines.one_call import few_shot
from flows.pipelines.pipeline import pipeline
from tasks.settings.pipeline import FewShotSettings


@pipeline(FewShotSettings)
async def mine(question, context):
    return await few_shot(question, context)
"""


def test_a_prompt_and_own_code_that_changed_are_told(line: Line, tmp_path: Path) -> None:
    """Answers of both are merged then, or compared."""
    conf = tmp_path / "conf"
    shutil.copytree(find_conf(), conf)
    line.demo.environment = {**line.demo.environment, "CROSSCHECK_CONF": str(conf)}
    own_code = tmp_path / "mine.py"
    own_code.write_text(OWN_PIPELINE, encoding="utf-8")
    before = line.evaluate(2, "--pipeline", f"{own_code}:mine")
    assert "merges answers of both" not in line.rerun(before, "--questions", "0").err
    own_code.write_text(OWN_PIPELINE + "# another\n", encoding="utf-8")
    prompt = conf / "prompts" / "preliminary_sql.jinja"
    prompt.write_text(
        prompt.read_text(encoding="utf-8").replace("### Task", "### Your task"), encoding="utf-8"
    )
    names = ("prompts/preliminary_sql.jinja", f"{tmp_path.name}/mine.py")
    # a process of its own: one process imports a file once
    after = finish(line.demo.start("rerun", before.json["run_id"], "--questions", "0", "--json"))
    assert after.code == 0, after.err
    told = f"Since {before.json['run_id']} was made, {', '.join(names)} changed. This run merges answers of both."
    assert told in after.json["notes"]
    compared = line.demo.run("compare", before.json["run_id"], after.json["run_id"])
    for name in names:
        digests = [re.escape(ran.json["sources"][name]) for ran in (before, after)]
        assert re.search(rf"{re.escape(name)} +{' +'.join(digests)}", compared.out), compared.out
