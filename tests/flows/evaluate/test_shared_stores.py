"""Stores that machines share, through the command line: what one of them paid for, no other pays for again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone.cache.store import open_reply_cache
from tests.support import in_process
from tests.support.command_line import CommandLine, Ran, free_ports
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.gateway import gateway_to
from tests.support.postgres import postgres_database

__all__ = ["postgres_database"]

pytestmark = pytest.mark.slow

Machine = Callable[..., CommandLine]
Words = tuple[str, ...]


@pytest.fixture
def machine(tmp_path: Path, built_demo: Path, prefect_server: str) -> Machine:
    """Makes machines: command lines with working folders of their own, and stores that they are told."""

    def make(name: str, **stores: str) -> CommandLine:
        line = in_process.served(Path(shutil.copytree(built_demo, tmp_path / name)), prefect_server)
        line.environment = {**line.environment, **stores}
        return line

    return make


@pytest.fixture
def night(backbone_file: str) -> Words:
    return ("evaluate", "--backbone", backbone_file, "--pipeline", "few-shot", "--limit", "6", "--json")


def assert_refused(ran: Ran, model: FakeOpenAI, *said: str) -> None:
    ran.assert_refused("refused", *said)
    assert model.requests == [] and "s3cret" not in ran.err


@pytest.mark.parametrize("shared", ["replies", "stages"])
def test_replies_in_postgresql_and_stage_results_in_one_folder_are_paid_for_once_for_all_machines(
    machine: Machine, night: Words, model: FakeOpenAI, postgres_database: str, tmp_path: Path, shared: str
) -> None:
    stores = {
        "replies": {"CROSSCHECK_REPLIES": postgres_database},
        "stages": {"CROSSCHECK_STAGES": (tmp_path / "shared").as_uri()},
    }
    first, second = (machine(name, **stores[shared]).run(*night) for name in "ab")
    assert first.code == second.code == 0, first.err + second.err
    assert first.json["cost"]["calls"] == len(model.requests) == 6
    assert (second.json["cost"]["calls"], second.json["ex"]) == (0, first.json["ex"])
    assert not list(tmp_path.glob(f"?/{shared}.sqlite"))


def test_stores_that_cannot_be_reached_are_said_before_anything_is_paid(
    machine: Machine, night: Words, model: FakeOpenAI
) -> None:
    (port,) = free_ports(1)
    replies = f"postgresql://me:s3cret@127.0.0.1:{port}/replies"
    assert_refused(machine("a", CROSSCHECK_REPLIES=replies).run(*night), model, "CROSSCHECK_REPLIES")
    stages = f"ftp://127.0.0.1:{port}/stages"
    assert_refused(machine("b", CROSSCHECK_STAGES=stages).run(*night), model, "CROSSCHECK_STAGES", stages)


def test_a_database_that_goes_away_ends_the_run_and_no_reply_is_paid_for_twice(
    machine: Machine, night: Words, model: FakeOpenAI, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.backbone.cache.store.RECONNECT_S", 1.0)
    answer: Any = model.answer
    asked: list[str] = []
    with gateway_to(5432) as gateway:
        address = postgres_database.replace(":5432/", f":{gateway.port}/")

        def answer_and_cut(body: Body) -> str:
            asked.append(json.dumps(body["messages"]))
            if len(asked) == 3:
                gateway.close()
            return str(answer(body))

        model.answer = answer_and_cut
        shop = machine("a", CROSSCHECK_REPLIES=address)
        cut = shop.run(*night, "--set", "backbone.concurrency=1")
        assert cut.code == 3, cut.err
        assert cut.json["answered"] == 3
        assert f"crosscheck rerun {cut.json['run_id']} retries only those" in cut.err
        gateway.open()
        whole = shop.run(*night, "--set", "backbone.concurrency=1")
    assert whole.code == 0, whole.err
    assert whole.json["answered"] == 6
    assert len(asked) == len(set(asked)) == 6
    with open_reply_cache(postgres_database) as cache:
        assert cache.stats().entries == 5  # the third was lost; what its stage made of it was not
