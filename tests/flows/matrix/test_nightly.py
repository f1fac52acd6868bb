"""Nights, each a real flow run on a real Prefect server, with a model behind a real API that changes."""

import datetime
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from markupsafe import escape
from prefect.client.orchestration import PrefectClient

import flows.prefect.stage_task_runs
from flows.evaluate.forms import Cleaning, Matrix
from flows.evaluate.preparation import Preparation, prepare
from flows.matrix import matrix
from flows.matrix import nightly as flow
from flows.matrix.matrix import CellLimits
from flows.matrix.nightly import CONTINUES, nightly
from flows.prefect.automations import WEBHOOK
from flows.prefect.settings import apply
from tasks.backbone.budget import Budget
from tasks.core.errors import CrosscheckError
from tasks.results.mlflow.store import find_store
from tasks.results.night import NightEntry, judge
from tasks.results.night_baseline import Baselines, compared
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice, Gate
from tasks.settings.home import Home
from tests.flows.conftest import only_sql
from tests.support.command_line import started_prefect_server
from tests.support.fake_openai import Body, FakeOpenAI, unauthorized
from tests.support.gold_model import GoldModel, question_of
from tests.support.http_server import webhook
from tests.support.prefect_home import Served, prefect_api, prefect_home

__all__ = ["Served", "prefect_api", "prefect_home"]

QUESTIONS = 30
GATE = Gate()
NO_RETRY = ["backbone.retries=0"]

pytestmark = pytest.mark.slow


class Nights:
    """Runs nights and reads what they left.

    The model behind the API knows the demo's gold SQL, and is wrong where a test wants it to be.
    """

    def __init__(self, home: Home, backbone: str, model: FakeOpenAI) -> None:
        self.home = home
        self.backbone = backbone
        self.model = model
        self.good = model.answer = GoldModel(home.path)

    async def __call__(
        self, name: str, gate: Gate = GATE, *, ask_again: bool = True, about: Any = None, **matrix: Any
    ) -> tuple[Any, Any]:
        """Run a night; `about` is what the flow is told besides the matrix and the gate."""
        plain = {"backbones": [self.backbone], "pipelines": ["zero-shot"], "limit": QUESTIONS}
        told = {"ask_again": ask_again, "night": name, **(about or {})}
        state = await nightly(Matrix(**(plain | matrix)), gate, return_state=True, **told)
        return state, json.loads((self.home.nights / f"{name}.json").read_text(encoding="utf-8"))

    def page(self, name: str) -> Path:
        return self.home.nights / f"{name}.html"

    def right(self, run_id: str) -> list[str]:
        rows = Warehouse(self.home.warehouse).read_run(run_id).rows
        return [
            row.question.text for row in rows if row.final.correct["strict"] and row.final.correct["bird"]
        ]

    def wrong_on(self, questions: list[str]) -> None:
        self.model.answer = GoldModel(self.home.path, questions)


@pytest.fixture
def nights(
    prefect_home: Home,
    built_demo: Path,
    backbone_file: str,
    model: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
) -> Nights:
    shutil.copytree(built_demo, prefect_home.path, dirs_exist_ok=True)
    monkeypatch.setenv("CROSSCHECK_HOME", str(prefect_home.path))
    return Nights(prefect_home, backbone_file, model)


async def test_a_run_that_cannot_be_compared_is_a_problem_of_its_own(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, lost = flow._evaluate, []

    async def lose_the_first(*given: Any, **asked: Any) -> NightEntry:
        entry = await evaluate(*given, **asked)
        if not lost:
            lost.append(entry.run_id)
            with duckdb.connect(nights.home.warehouse) as connection:
                connection.execute("DELETE FROM runs WHERE run_id = ?", lost)
        return entry

    monkeypatch.setattr(flow, "_evaluate", lose_the_first)
    state, night = await nights("broken", pipelines=["zero-shot", "few-shot"], limit=4)
    first, second = night["entries"]
    assert first["verdict"] == "infrastructure"
    assert f'There is no run "{lost[0]}"' in first["problem"]
    assert (second["verdict"], second["problem"]) == ("no baseline", "")
    assert state.is_failed() and "1 of 2 evaluations was not completed" in state.message
    assert nights.page("broken").exists()


@pytest.mark.parametrize("request_", ["create_flow_run", "set_flow_run_state"])
async def test_an_evaluation_is_kept_whose_beginning_or_end_prefects_server_did_not_take(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, request_: str
) -> None:
    lost: list[str] = []
    send = getattr(PrefectClient, request_)

    async def lose_one(client: PrefectClient, *given: Any, **named: Any) -> Any:
        child = request_ == "set_flow_run_state" or named.get("parent_task_run_id")
        if not lost and child and (request_ == "create_flow_run" or given[1].is_completed()):
            lost.append(request_)
            raise httpx.ConnectError("All connection attempts failed")
        return await send(client, *given, **named)

    monkeypatch.setattr(PrefectClient, request_, lose_one)
    monkeypatch.setattr(flow, "RESTART_S", 0.0)
    _, night = await nights("lost", limit=4)
    (entry,) = night["entries"]
    assert lost and entry["run"]["run_id"] and entry["problem"] == ""


async def test_a_night_is_kept_and_announced_whose_prefect_server_is_gone_from_its_beginning(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (folder := tmp_path / "server").mkdir()
    open_home = flow.open_home

    async def lose_server() -> Home:
        server.kill()
        with suppress(httpx.TransportError):
            while httpx.get(f"{url}/health", timeout=5):
                time.sleep(0.1)
        return await open_home()

    monkeypatch.delenv("PREFECT_API_URL")
    with started_prefect_server(folder) as (url, server), webhook() as (hook, told_hook):
        told = {"PREFECT_API_URL": url, "PREFECT_CLIENT_MAX_RETRIES": "0", WEBHOOK: hook}
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        apply({})
        monkeypatch.setattr(flow, "RESTART_S", 0.0)
        monkeypatch.setattr(flow, "open_home", lose_server)
        with pytest.raises(httpx.ConnectError):  # Prefect cannot record the end
            await nights("gone", limit=4)
        (_, posted) = told_hook.get_nowait()
    night = json.loads((nights.home.nights / "gone.json").read_text(encoding="utf-8"))
    assert "Prefect's server stops answering" in night["entries"][0]["problem"]
    assert posted["state"] == "Red" and "gone" in posted["text"]


async def artifact(flow_run_id: Any) -> str:
    from prefect.client.orchestration import get_client

    async with get_client() as client:
        query = {"artifacts": {"flow_run_id": {"any_": [str(flow_run_id)]}}}
        (found,) = (await client.request("POST", "/artifacts/filter", json=query)).json()
    assert found["type"] == "markdown"
    return str(found["data"])


async def test_a_night_whose_stages_fell_back_is_amber_and_names_them(nights: Nights) -> None:
    nights.model.answer = only_sql
    overrides = ["backbone.unreadable_limit=0"]
    state, night = await nights("degraded", pipelines=["rsl-sql"], limit=4, overrides=overrides)
    (entry,) = night["entries"]
    assert (entry["verdict"], entry["run"]["degradation"]["share"]) == ("degraded", 1.0)
    assert state.name == "Amber" and "has stages that fell back" in state.message
    sentence = "forward_link: 4 of 4 replies could not be read: nothing was linked."
    assert sentence in entry["run"]["degradation"]["sentences"]
    assert sentence in nights.page("degraded").read_text(encoding="utf-8")
    state, _ = await nights(
        "tolerated", Gate(degraded_share=1.0), pipelines=["few-shot"], limit=4, overrides=overrides
    )
    assert state.name == "No baseline yet"


async def test_nights_stay_green_on_noise_and_turn_red_on_a_real_regression(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, first = await nights("first")
    assert state.is_completed(), state.message
    (entry,) = first["entries"]
    assert entry["verdict"] == "no baseline"
    right = nights.right(entry["run"]["run_id"])
    assert len(right) == QUESTIONS

    nights.wrong_on(right[:3])
    state, second = await nights("second")
    (entry,) = second["entries"]
    assert state.is_completed(), state.message
    assert entry["baseline"] == first["entries"][0]["run"]["run_id"]
    assert (entry["verdict"], entry["run"]["cost"]["calls"]) == ("no worse", QUESTIONS)
    assert (len(entry["comparison"]["broken"]), entry["comparison"]["fixed"]) == (3, [])

    nights.wrong_on(right[3:8])
    state, third = await nights("third")
    (entry,) = third["entries"]
    assert state.is_completed(), state.message
    assert (len(entry["comparison"]["broken"]), len(entry["comparison"]["fixed"])) == (5, 3)

    nights.wrong_on(right)
    with webhook() as (hook, told_hook):
        monkeypatch.setenv(WEBHOOK, hook)
        state, fourth = await nights("fourth")
    (entry,) = fourth["entries"]
    ((_, posted),) = [told_hook.get_nowait() for _ in range(told_hook.qsize())]
    assert posted["state"] == state.name == "Red"
    assert f"{entry['backbone']} | {entry['pipeline']} (−" in posted["text"] and "points" in posted["text"]
    assert "s3cret" not in json.dumps(posted)
    assert state.is_failed() and "significantly worse" in state.message
    assert entry["verdict"] == "regression" and entry["adjusted_p"] < 0.01
    assert entry["baseline"] == third["entries"][0]["run"]["run_id"]
    told = await artifact(state.state_details.flow_run_id)
    assert told.startswith("# Red: nightly run fourth")
    assert "**regression**" in told
    assert f"crosscheck compare {entry['baseline']} {entry['run']['run_id']}" in told
    assert str(nights.page("fourth")) in told
    assert [past["run_id"] for past in entry["trend"]] == [
        night["entries"][0]["run"]["run_id"] for night in (first, second, third, fourth)
    ]
    red = nights.page("fourth").read_text(encoding="utf-8")
    assert '<h1 class="bad">Red</h1>' in red and escape(fourth["verdict"]) in red
    assert red.count('<li class="flip"') == min(20, len(entry["comparison"]["broken"]))
    assert "&#39;wrong&#39;" in red, "the SQL that was answered tonight is shown"
    green = nights.page("third").read_text(encoding="utf-8")
    assert '<h1 class="good">Green</h1>' in green
    assert green.count('<li class="flip"') == 5 + 3


async def test_a_night_without_asking_again_pays_nothing_and_one_of_the_same_name_continues(
    nights: Nights,
) -> None:
    await nights("a", limit=6)
    assert len(nights.model.requests) == 6
    assert "epoch" not in json.dumps([request.body for request in nights.model.requests])
    _, again = await nights("a", limit=6)
    assert len(nights.model.requests) == 6
    assert again["entries"][0]["verdict"] == "no baseline", "it is not compared with itself"
    for name in "bc":
        await nights(name, limit=6, ask_again=False)
    assert len(nights.model.requests) == 12


def traces(nights: Nights, run_id: str) -> dict[str, Any]:
    """Return MLflow's traces of a run, by question."""
    client = find_store(nights.home).client()
    tracked = Warehouse(nights.home.warehouse).read_run(run_id).mlflow
    assert tracked.experiment_id is not None
    found = client.search_traces(locations=[tracked.experiment_id], max_results=100)
    of_run = [each for each in found if each.info.trace_metadata["mlflow.sourceRun"] == tracked.run_id]
    return {each.info.tags["question_id"]: each for each in of_run}


async def test_an_answer_with_the_verdict_of_the_night_before_is_traced_without_its_stages(
    nights: Nights,
) -> None:
    _, first = await nights("a", limit=6)
    before = first["entries"][0]["run"]["run_id"]
    assert {len(each.data.spans) for each in traces(nights, before).values()} == {3}
    nights.wrong_on(nights.right(before)[:1])
    _, second = await nights("b", limit=6)
    after = traces(nights, second["entries"][0]["run"]["run_id"])
    (broken,) = (each for each in after.values() if each.info.tags.get("flipped") == "broken")
    assert len(broken.data.spans) == 3
    assert [len(each.data.spans) for each in after.values() if "unchanged" in each.info.tags] == [1] * 5


async def test_failed_infrastructure_fails_the_night_but_not_its_other_evaluations(nights: Nights) -> None:
    nights.model.always(unauthorized())
    state, night = await nights("refused", backbones=[nights.backbone, "offline"], limit=5)
    assert state.is_failed()
    refused, offline = night["entries"]
    assert refused["verdict"] == "infrastructure"
    assert "key" in refused["problem"].lower()
    assert offline["verdict"] == "no baseline"
    assert offline["run"]["total"] == 5
    assert refused["continue_with"] == (
        f"crosscheck evaluate --benchmark demo --backbone {nights.backbone} --pipeline zero-shot --limit 5 "
        "--set backbone.epoch=refused"
    )
    page = nights.page("refused").read_text(encoding="utf-8")
    assert escape(refused["continue_with"]) in page and escape(refused["problem"]) in page


async def test_a_night_that_sees_the_gold_is_compared_with_nothing_and_may_not_be_named_as_a_baseline(
    nights: Nights,
) -> None:
    plain = {"backbones": ["offline"], "pipelines": ["dac"], "limit": 3}
    await nights("before", ask_again=False, **plain)
    state, oracle = await nights("oracle", ask_again=False, overrides=["pipeline.dac.oracle=both"], **plain)
    (entry,) = oracle["entries"]
    assert state.is_completed(), state.message
    assert (entry["verdict"], entry["baseline"], entry["comparison"]) == ("not ranked", None, None)
    assert "saw parts of the gold SQL" in nights.page("oracle").read_text(encoding="utf-8")
    baselines = {"demo | offline | dac": entry["run"]["run_id"]}
    with pytest.raises(CrosscheckError, match="saw parts of the gold SQL"):
        await nightly(Matrix(**plain, baselines=baselines), night="refused")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Repeat tasks without a pause, and forget the tasks that were made so."""
    monkeypatch.setattr(flows.prefect.stage_task_runs, "TASK_RETRY_DELAYS_S", (0.0, 0.0))
    flows.prefect.stage_task_runs.task_of.cache_clear()
    yield
    flows.prefect.stage_task_runs.task_of.cache_clear()


@pytest.mark.usefixtures("impatient")
async def test_a_few_unanswered_questions_are_tolerated_many_are_not_and_the_command_to_continue_is_given(
    nights: Nights,
) -> None:
    _, before = await nights("before", limit=10)
    lost = nights.right(before["entries"][0]["run"]["run_id"])[:2]

    def drop(body: Body) -> str:
        if any(text in question_of(body) for text in lost):
            raise ConnectionError
        return nights.good(body)

    nights.model.answer = drop
    state, night = await nights("lossy", Gate(tolerated_failures=0.1), limit=10, overrides=NO_RETRY)
    (entry,) = night["entries"]
    assert state.is_failed()
    assert entry["verdict"] == "too many unanswered"
    assert "1 of 1 evaluation has too many questions without an answer: " in state.message
    assert "10 % that is tolerated" in entry["problem"]
    assert entry["run"]["retryable"] >= 2
    assert entry["comparison"]["broken"] == [], "what nobody answered says nothing about the model"
    assert entry["run"]["total"] == 10
    assert entry["continue_with"] == f"crosscheck rerun {entry['run']['run_id']}"
    judged = NightEntry.of_run(RunRecord.model_validate(entry["run"]))
    tolerant = compared(judged, Baselines(), Warehouse(nights.home.warehouse), Gate(tolerated_failures=0.9))
    assert judge(Gate(), [tolerant])[0].colour != "Red"
    nights.model.answer = nights.good
    _, after = await nights("after", Gate(tolerated_failures=0.1), limit=10)
    assert after["entries"][0]["baseline"] == before["entries"][0]["run"]["run_id"]


async def test_what_the_matrix_or_the_warehouse_does_not_know_is_refused_before_anything_is_paid(
    nights: Nights,
) -> None:
    for baselines in ({"demo | nobody | zero-shot": "latest"}, {"demo | local | zero-shot": "nothing"}):
        matrix = Matrix(backbones=[nights.backbone], pipelines=["zero-shot"], baselines=baselines)
        with pytest.raises(CrosscheckError):
            await nightly(matrix, night="refused")
    for limits, message in [
        ({"budget_usd": 5.0}, "no budget can be kept"),
        ({"finish_by": "07:00"}, "standard tier already"),
        ({"finish_by": "later"}, "neither a time of day"),
    ]:
        matrix = Matrix(backbones=[nights.backbone], overrides=["backbone.prices=null"])
        state = await nightly(matrix, night="refused", return_state=True, **limits)  # type: ignore[arg-type]
        assert state.is_failed() and message in str(state.message)
    assert nights.model.requests == []


def test_the_form_offers_the_names_there_are() -> None:
    schema = json.dumps(Matrix.model_json_schema())
    folder = Path(__file__).parents[3] / "conf" / "benchmarks"
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    assert f'"enum": {json.dumps(names)}' in schema
    assert "percentage points" in json.dumps(Gate.model_json_schema()).lower()


async def test_a_night_cleans_the_folder_and_keeps_its_own_runs(nights: Nights) -> None:
    old = nights.home.values / "old.sqlite"
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(bytes(1000))
    os.utime(old, (0, 0))
    keep = Cleaning(age="30d", runs=1)
    _, night = await nights("cleaned", about={"keep": keep}, limit=2, tags={"team": "search"}, note="tonight")
    assert night["cleaned"].startswith("Freed ")
    assert night["keep"] == keep.model_dump()
    assert not old.exists()
    (run,) = Warehouse(nights.home.warehouse).runs()
    assert (run.tags["team"], run.tags["note"]) == ("search", "tonight")
    assert Warehouse(nights.home.warehouse).read_run(run.run_id).rows
    assert "Freed" in nights.page("cleaned").read_text(encoding="utf-8")


async def test_a_night_writes_candidates_and_the_same_night_pays_for_none_again(nights: Nights) -> None:
    overrides = ["pipeline.candidates.n=2", "pipeline.candidates.temperature=0.7"]
    for _ in range(2):
        _, night = await nights("several", limit=2, overrides=overrides)
        assert len(nights.model.requests) == 4
        (entry,) = night["entries"]
        stored = Warehouse(nights.home.warehouse).read_run(entry["run"]["run_id"])
        assert stored.metrics["candidates"]["n"] == 2


PRICED = ["backbone.prices={input: 100, output: 100, as_of: 2026-11-01}", "backbone.concurrency=1"]


async def test_a_night_keeps_its_budget_and_says_what_it_left_out(nights: Nights) -> None:
    given = {"pipelines": ["zero-shot", "few-shot"], "limit": 12, "overrides": PRICED}
    _, night = await nights("poor", about={"budget_usd": 0.5}, **given)
    first, second = night["entries"]
    assert f"Everything answered is kept. {CONTINUES}." in first["problem"]
    assert 0 < first["run"]["retryable"] < 12 and 0 < second["run"]["retryable"] < 12
    spent = [entry["run"]["cost"]["cost_usd"] for entry in night["entries"]]
    largest = max(spent) / min(entry["run"]["cost"]["calls"] for entry in night["entries"])
    assert sum(spent) <= 0.5 + 2 * largest
    assert night["budget_usd"] == 0.5
    paid = len(nights.model.requests)
    _, night = await nights("poor", about={"budget_usd": 50.0}, **given)
    assert [entry["run"]["retryable"] for entry in night["entries"]] == [0, 0]
    assert len(nights.model.requests) == 24
    assert (
        night["entries"][0]["run"]["cost"]["calls"] + night["entries"][1]["run"]["cost"]["calls"] == 24 - paid
    )
    assert night["earlier"] == {"usd": pytest.approx(sum(spent)), "least_usd": pytest.approx(sum(spent))}
    again = [entry["run"]["cost"]["cost_usd"] for entry in night["entries"]]
    assert night["paid_usd"] == pytest.approx(sum(spent) + sum(again))


def test_the_time_and_the_budget_are_split_over_the_evaluations() -> None:
    now = datetime.datetime.now(datetime.UTC)
    limits = CellLimits(Budget(9.0, CONTINUES), now + datetime.timedelta(hours=6), [])
    names = {"benchmark": "demo", "backbone": "openai", "pipeline": "zero-shot"}
    settings = evaluation_settings(EvaluationChoice(**names, overrides=["backbone.tier=flex"]))
    end = datetime.datetime.fromisoformat(limits.limited(settings, 3).backbone.finish_by or "")
    assert abs(end - now - datetime.timedelta(hours=2)) < datetime.timedelta(seconds=5)
    budget = limits.budget(3)
    assert budget is not None and budget.limit_usd == 3.0
    budget.spent_usd = 1.0
    after = limits.budget(2)
    assert after is not None and (after.limit_usd, after.spent_usd) == (4.0, 0.0)
    after.unknown = "the cost of a call to openai is unknown"
    last = limits.budget(1)
    assert last is not None and last.unknown == after.unknown, "what is left is not known either"


async def test_changed_data_is_said_in_the_verdict_before_anything_is_paid(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, before = await nights("before", limit=6)
    asked = len(nights.model.requests)

    def prepare_changed(*given: Any) -> Preparation:
        prepared = prepare(*given)
        databases = {name: replace(each, digest="0" * 64) for name, each in prepared.databases.items()}
        return replace(prepared, databases=databases)

    monkeypatch.setattr(matrix, "prepare", prepare_changed)
    state, night = await nights("changed", limit=6)
    (entry,) = night["entries"]
    baseline = before["entries"][0]["run"]["run_id"]
    assert state.name == "Red" and entry["verdict"] == "infrastructure"
    assert f"1 database changed since the baseline {baseline} was evaluated: city_library" in state.message

    def prepare_with_other_questions(*given: Any) -> Preparation:
        prepared = prepare(*given)
        return replace(prepared, benchmark=replace(prepared.benchmark, digest="0" * 64))

    named = {f"demo | {entry['backbone']} | zero-shot": baseline}
    monkeypatch.setattr(matrix, "prepare", prepare_with_other_questions)
    state, _ = await nights("other", limit=6, baselines=named)
    assert f"The question file changed since the baseline {baseline} was evaluated" in state.message
    monkeypatch.setattr(matrix, "prepare", prepare)
    state, _ = await nights("disjoint", questions="10-12", limit=None, baselines=named)
    assert f"The baseline {baseline} answered none of the selected questions" in state.message
    changes = ["benchmark.revision=new", "benchmark.rule=strict"]
    state, _ = await nights("rule", limit=6, baselines=named, overrides=changes)
    revision = before["entries"][0]["run"]["revision"]
    assert f"the revision was {revision} and is new; the rule was bird and is strict" in state.message
    assert len(nights.model.requests) == asked


async def test_a_file_that_cannot_be_read_costs_its_evaluation_and_not_a_night_with_a_budget(
    nights: Nights, tmp_path: Path
) -> None:
    (tmp_path / "broken.yaml").write_text("votes: [1", encoding="utf-8")
    pipelines = [str(tmp_path / "broken.yaml"), "zero-shot"]
    _, night = await nights("broken", limit=2, pipelines=pipelines, about={"budget_usd": 50.0})
    broken, evaluated = night["entries"]
    assert "broken.yaml is not YAML" in broken["problem"] and evaluated["run"]["answered"] == 2
