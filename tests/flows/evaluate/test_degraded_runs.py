"""A model that answers every prompt with a query: half of the pipeline does nothing, and the run says so."""

import json

import duckdb
import pytest
from mlflow import MlflowClient

from tasks.settings.backbone import BackboneSettings
from tests.flows.conftest import answer_as_offline, only_sql
from tests.support.command_line import CommandLine
from tests.support.fake_openai import Behaviour, FakeOpenAI

pytestmark = pytest.mark.slow


UNREAD = ("forward_link", "augmentation_elements", "augmentation_keywords", "augmentation_conditions")
FOUR = ("--pipeline", "rsl-sql", "--limit", "4")
ONE_AT_A_TIME = ("--set", "backbone.concurrency=1")


def test_stages_without_a_readable_reply_are_said_wherever_the_score_stands(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.answer = only_sql
    model_options = ("--backbone", backbone_file, "--set", "backbone.unreadable_limit=0")
    ran = demo.run("evaluate", *FOUR, *model_options)
    assert ran.code == 0, ran.err
    first = "forward_link: 4 of 4 replies could not be read: nothing was linked."
    meaning = f"The score is that of the pipeline without {' and '.join(UNREAD)}."
    screen = ran.out.splitlines()[:12]
    assert any(first in line for line in screen), ran.out
    assert meaning in " ".join(ran.out.split())

    shown = demo.run("show", "latest")
    assert first in shown.out
    found = json.loads(demo.run("show", "latest", "--json").out)["degradation"]
    assert (found["affected"], found["questions"]) == (4, 4)
    assert [(each["stage"], each["unreadable"]) for each in found["stages"]] == [(name, 4) for name in UNREAD]

    demo.run("show", "latest", "--html", str(demo.home / "run.html"))
    assert first in (demo.home / "run.html").read_text(encoding="utf-8")
    client = MlflowClient(f"sqlite:///{demo.home / 'mlflow.db'}")
    (run,) = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert run.data.metrics["questions/degraded"] == 4
    assert run.data.metrics["stage_unreadable/forward_link"] == 1.0
    assert first in run.data.tags["mlflow.note.content"].replace("\\_", "_")
    with duckdb.connect(str(demo.home / "warehouse.duckdb"), read_only=True) as warehouse:
        counts = warehouse.execute(
            "SELECT stage, sum(unreadable), sum(replies) FROM stages GROUP BY stage"
        ).fetchall()
    assert {(name, 4, 4) for name in UNREAD} <= set(counts)

    model.answer = answer_as_offline
    whole = demo.run("evaluate", *FOUR, *model_options, "--set", "backbone.epoch=second")
    assert whole.code == 0, whole.err
    compared = demo.run("compare", "latest~1", "latest")
    assert first in " ".join(compared.out.split())


def test_the_run_stops_before_it_pays_for_more_and_names_the_setting(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.answer = only_sql
    assert BackboneSettings(name="x").unreadable_limit == 20
    few = ("--limit", "30", "--set", "backbone.unreadable_limit=6", *ONE_AT_A_TIME)
    options = ("--pipeline", "rsl-sql", "--backbone", backbone_file, *few)
    ran = demo.run("evaluate", *options)
    assert ran.code == 3, ran.err
    assert "none of the first 6 replies could be read" in ran.out + ran.err
    assert "backbone.response_mode" in ran.out + ran.err
    asked = len(model.requests)
    assert asked < 30 * 8, "the rest was not asked"
    again = demo.run("evaluate", *options)
    assert again.code == 3
    assert len(model.requests) == asked, "the same command pays for nothing more"


def test_replies_of_another_model_are_said_wherever_the_score_stands(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.script(Behaviour(), Behaviour(model="smaller"), Behaviour(), Behaviour(model="smaller"))
    ran = demo.run("evaluate", "--pipeline", "zero-shot", "--limit", "4", "--backbone", backbone_file)
    remark = "local-model (2 calls), smaller (2 calls)"
    assert remark in " ".join(ran.out.split()), ran.out
    client = MlflowClient(f"sqlite:///{demo.home / 'mlflow.db'}")
    (run,) = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert remark in run.data.tags["mlflow.note.content"]
    other = demo.run("evaluate", "--pipeline", "few-shot", "--limit", "4", "--backbone", backbone_file)
    assert "calls)" not in other.out
    assert "A: The replies are of 2 models" in " ".join(demo.run("compare", "latest~1", "latest").out.split())
