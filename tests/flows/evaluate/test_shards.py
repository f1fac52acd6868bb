"""Evaluations in shards: a real Prefect server on PostgreSQL, workers as machines of their own, a slow model API."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.prefect import automations
from flows.prefect.settings import apply
from tasks.backbone.cache.store import open_reply_cache
from tests.support.command_line import CommandLine, end, free_ports, wait_until
from tests.support.counting import Count, count
from tests.support.death import Deaths, Moment
from tests.support.demo import write_backbone
from tests.support.fake_openai import FakeOpenAI
from tests.support.postgres import new_database
from tests.support.team import UNFINISHED, Team

__all__ = ["count"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
    pytest.mark.xdist_group("shards"),
]
CONCURRENCY = 8


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    with new_database() as replies, new_database() as prefect:
        stores = {"CROSSCHECK_REPLIES": replies, "CROSSCHECK_STAGES": str(folder / "stages")}
        database = prefect.replace("postgresql://", "postgresql+asyncpg://")
        team = Team(folder, *free_ports(1), database, stores)
        try:
            team.start_server()
            team.deploy()
            notice_deaths_sooner(team)
            yield team
        finally:
            team.stop()


def notice_deaths_sooner(team: Team) -> None:
    """Have the server wait for less than the usual three heartbeats of a flow run, which come every 30 seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_URL", team.api)
        patch.setattr(automations, "SILENT_S", 50)
        apply({})
        asyncio.run(automations.watch_over_flow_runs())
    apply({})


@pytest.fixture
def model(fake_openai: FakeOpenAI) -> FakeOpenAI:
    """A model that answers anything after 200 ms."""
    fake_openai.answer, fake_openai.latency = lambda body: '{"sql": "SELECT 1"}', 0.2
    return fake_openai


@pytest.fixture
def backbone(model: FakeOpenAI, tmp_path: Path) -> str:
    slow = {"model": "slow", "concurrency": CONCURRENCY, "retries": 1, "max_wait_s": 0.2}
    return write_backbone(tmp_path / "slow.yaml", model, **slow)


def bought(team: Team) -> set[str]:
    """The prompts whose replies are kept."""
    with open_reply_cache(team.stores["CROSSCHECK_REPLIES"]) as cache:
        return {entry.request["messages"][-1][1] for entry in cache.entries()}


def arguments(backbone: str, *more: str) -> tuple[str, ...]:
    return ("evaluate", "--backbone", backbone, "--pipeline", "few-shot", "--json", *more)


def test_without_a_server_or_a_worker_nothing_begins(team: Team, model: FakeOpenAI, backbone: str) -> None:
    shell, sharded = team.shell("parent"), arguments(backbone, "--shards", "2")
    CommandLine(shell.home).run(*sharded).assert_refused("PREFECT_API_URL names none")
    recorded = shell.run(*sharded, "--record", "x.jsonl")
    recorded.assert_refused("--record writes the replies that one process got")
    shell.run(*sharded).assert_refused('No worker of the pool "nightly" is online')
    assert not model.requests


def test_workers_that_do_not_share_the_stores_are_found_out_before_anything_is_paid(
    team: Team, model: FakeOpenAI, backbone: str, tmp_path: Path
) -> None:
    team.start_worker("elsewhere", CROSSCHECK_STAGES=str(tmp_path / "stages"))
    ran = team.shell("parent").run(*arguments(backbone, "--shards", "2"))
    team.lose("elsewhere")
    ran.assert_refused("does not find the stage results", "CROSSCHECK_STAGES")
    assert not model.requests


@pytest.mark.promise("launcher")
def test_ctrl_c_stops_the_shards_and_the_same_command_continues_also_after_sigkill(
    team: Team, model: FakeOpenAI, backbone: str, count: Count
) -> None:
    team.start_worker("three")
    shell, model.latency = team.shell("parent"), 1.0
    words = arguments(backbone, "--shards", "2")
    process = shell.start(*words)
    model.wait_for(20)
    stopped = end(process, signal.SIGINT)
    assert stopped.code == 130, stopped.err
    wait_until(lambda: not team.flow_runs(*UNFINISHED), pause=0.5)
    kept, sent = bought(team), len(model.requests)
    with count.fault("Ctrl-C"):
        assert len(kept) == sent, "a reply that was on its way when Ctrl-C came was lost"
    deaths = Deaths(shell, model, words, team.stores["CROSSCHECK_REPLIES"])
    with count.fault("SIGKILL of the process that launched the shards"):
        assert deaths.die((signal.SIGKILL,), Moment(requests=16))
        again = deaths.finish()
        assert again.code == 0, again.err
        assert again.json["answered"] == again.json["total"] == 113
    team.lose("three")
    count.answers(lost=deaths.lost, twice=deaths.twice)
    asked = Counter(model.prompts)
    assert len(asked) == 113 and sum(asked.values()) - len(asked) <= CONCURRENCY


@pytest.mark.promise("machine")
def test_a_machine_that_dies_half_way_costs_nothing_that_was_answered(
    team: Team, model: FakeOpenAI, backbone: str, shared_data: Path, count: Count
) -> None:
    for machine in ("one", "two"):
        team.start_worker(machine, CROSSCHECK_DATA=str(shared_data))
    shell = team.shell("parent", CROSSCHECK_DATA=str(shared_data))
    spider = arguments(backbone, "--benchmark", "spider-dev", "--limit", "160")
    model.latency = 2.0  # no shard ends before all have begun
    process = shell.start(*spider, "--shards", "4")
    wait_until(lambda: sum(bool(run["deployment_id"]) for run in team.flow_runs("RUNNING")) == 4, pause=0.3)
    model.wait_for(40)
    team.lose("one")
    model.latency = 0.05
    kept, sent = bought(team), len(model.requests)
    out, err = process.communicate(timeout=480)
    with count.fault("SIGKILL of all processes of a machine"):
        assert process.returncode == 0, err + team.log("two")
    summary = json.loads(out)
    count.answers(lost=len(kept - bought(team)), twice=len(kept & set(model.prompts[sent:])))
    asked = Counter(model.prompts)
    assert sum(asked.values()) - len(asked) <= CONCURRENCY
    assert "A worker crashed on shard" in err
    assert (summary["total"], summary["failures"]) == (160, {})
    # Nothing is left that Prefect thinks is being run; what died is said to have crashed.
    wait_until(lambda: not team.flow_runs(*UNFINISHED), pause=0.5)
    ended = Counter(run["state_type"] for run in team.flow_runs() if summary["run_id"] in run["name"])
    assert ended == {"COMPLETED": 4, "CRASHED": 2}
    # The same evaluation without shards finds every answer, and the same ones.
    before = len(model.requests)
    again = shell.run(*spider)
    assert again.code == 0, again.err
    assert len(model.requests) == before
    assert (again.json["ex"], again.json["cost"]["calls"]) == (summary["ex"], 0)
    assert summary["cost"]["calls"] + summary["cost"]["cached_calls"] == 160
    # what the dead machine had heard last
    assert len(set(model.prompts)) - summary["cost"]["calls"] <= CONCURRENCY
