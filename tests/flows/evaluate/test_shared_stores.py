"""Stores that machines share, through the command line: what one of them paid for, no other pays for again."""

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone.cache.store import open_reply_cache
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.gateway import gateway_to
from tests.support.postgres import postgres_database

__all__ = ["postgres_database"]

pytestmark = pytest.mark.slow

Machine = Callable[..., CommandLine]


@pytest.fixture
def machine(tmp_path: Path, built_demo: Path, prefect_server: str) -> Machine:
    """Makes machines: command lines with working folders of their own, and stores that they are told."""

    def make(name: str, **stores: str) -> CommandLine:
        home = tmp_path / name
        shutil.copytree(built_demo, home)
        place = {"PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(home / "prefect")}
        return CommandLine(home, {**place, **stores})

    return make


@pytest.fixture
def night(backbone_file: str) -> tuple[str, ...]:
    return ("evaluate", "--backbone", backbone_file, "--pipeline", "few-shot", "--limit", "6", "--json")


def refused(ran: Ran, model: FakeOpenAI) -> str:
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    assert model.requests == []
    return ran.err


def test_replies_in_postgresql_are_paid_for_once_for_all_machines(
    machine: Machine, night: tuple[str, ...], model: FakeOpenAI, postgres_database: str
) -> None:
    first = machine("a", CROSSCHECK_REPLIES=postgres_database).run(*night)
    assert first.code == 0, first.err
    assert first.json["cost"]["calls"] == len(model.requests) == 6
    second = machine("b", CROSSCHECK_REPLIES=postgres_database).run(*night)
    assert second.code == 0, second.err
    assert len(model.requests) == 6
    assert second.json["cost"]["calls"] == 0
    assert second.json["ex"] == first.json["ex"]
    assert not list(machine("c").home.parent.glob("*/replies.sqlite"))


def test_stage_results_in_one_folder_are_restored_by_all_machines(
    machine: Machine, night: tuple[str, ...], model: FakeOpenAI, tmp_path: Path
) -> None:
    stages = {"CROSSCHECK_STAGES": (tmp_path / "shared").as_uri()}
    first = machine("a", **stages).run(*night)
    assert first.code == 0, first.err
    second = machine("b", **stages).run(*night)
    assert second.code == 0, second.err
    assert len(model.requests) == first.json["cost"]["calls"] == 6
    assert second.json["cost"]["calls"] == 0
    assert second.json["ex"] == first.json["ex"]
    assert not list(tmp_path.glob("?/stages.sqlite"))


def test_stores_that_cannot_be_reached_are_said_before_anything_is_paid(
    machine: Machine, night: tuple[str, ...], model: FakeOpenAI
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    replies = f"postgresql://me:s3cret@127.0.0.1:{port}/replies"
    said = refused(machine("a", CROSSCHECK_REPLIES=replies).run(*night), model)
    assert "CROSSCHECK_REPLIES" in said and "refused" in said and "s3cret" not in said
    stages = f"ftp://127.0.0.1:{port}/stages"
    said = refused(machine("b", CROSSCHECK_STAGES=stages).run(*night), model)
    assert "CROSSCHECK_STAGES" in said and stages in said and "refused" in said


def test_a_database_that_goes_away_ends_the_run_and_no_reply_is_paid_for_twice(
    machine: Machine, night: tuple[str, ...], model: FakeOpenAI, postgres_database: str
) -> None:
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
