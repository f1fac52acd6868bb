"""What a bundle must not hold: secrets, paths, and names of machines and users."""

import socket
from pathlib import Path
from typing import Any

import pytest

from tasks.core.outcome import StageRecord
from tasks.tracking.bundle.anonymous import Anonymizer
from tasks.tracking.bundle.contents import bundled
from tests.tasks.scoring.samples import score


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Anonymizer:
    monkeypatch.setattr(socket, "gethostname", lambda: "demo.corp.example")
    monkeypatch.setenv("LOGNAME", "jdoe")
    monkeypatch.setenv("HOME", "/home/Jane Doe")
    return Anonymizer.of_this_machine((Path("/mnt/My Data"),), ("s3cr3t-key",))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key s3cr3t-key was refused", "key *** was refused"),
        ("http://me:pw@gpu7.corp.example:8000/v1 timed out", "http://***/v1 timed out"),
        ("https://gpu7.corp.example/v1, then", "https://***/v1, then"),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("https://api.openai.com/v1/chat", "https://api.openai.com/v1/chat"),
        ("postgresql://reader@db.corp.example/shop", "postgresql://***/shop"),
        ("cannot read /srv/x/y.sqlite: locked", "cannot read y.sqlite: locked"),
        ("no file ~/x/y.sqlite.", "no file y.sqlite."),
        ("sqlite:////srv/x/y.sqlite", "sqlite:///y.sqlite"),
        (r"C:\Users\jdoe\dev.json", "dev.json"),
        ("in /home/Jane Doe/text2sql/dev.json and /mnt/My Data/a/b", "in text2sql/dev.json and a/b"),
        ("GET /models gives 404", "GET /models gives 404"),
        ("run by jdoe on DEMO", "run by *** on ***"),
        ("demonstrations: 3/4 of them and/or 1 / 2", "demonstrations: 3/4 of them and/or 1 / 2"),
    ],
)
def test_texts_keep_what_they_say_and_lose_places_and_names(hidden: Anonymizer, text: str, left: str) -> None:
    assert hidden.text(text) == left


def test_values_that_identify_a_run_stay_and_tags_do_not(hidden: Anonymizer) -> None:
    run = {
        "benchmark": "demo",
        "tags": {"name": "demo", "note": "by jdoe"},
        "settings": {"recording": "/srv/My Files/r.jsonl", "kind": "/srv/a/mine.py:vote", "api_key": "abc"},
        "answer_keys": ["mine=/srv/a/key.json", "arcwise"],
        "cost": 1.5,
    }
    assert hidden.value(run) == {
        "benchmark": "demo",
        "tags": {"name": "***", "note": "by ***"},
        "settings": {"recording": "r.jsonl", "kind": "mine.py:vote", "api_key": "***"},
        "answer_keys": ["mine=key.json", "arcwise"],
        "cost": 1.5,
    }


@pytest.mark.parametrize(
    ("stage", "value", "left"),
    [
        (
            "value_retrieval",
            [{"column": {"table": "t", "column": "a"}, "values": ["Jane", 3]}],
            [{"column": {"table": "t", "column": "a"}, "values": []}],
        ),
        ("question_values", {"columns": [{"values": ["Jane"]}]}, {"columns": [{"values": []}]}),
        ("column_profile", [{"samples": ["Jane"], "missing": 0.5}], [{"samples": [], "missing": 0.5}]),
        ("initial_sql", {"sql": "SELECT 1"}, {"sql": "SELECT 1"}),
        ("value_retrieval", None, None),
    ],
)
@pytest.mark.parametrize("replies", [True, False])
def test_values_that_a_stage_read_from_the_database_are_left_out(
    hidden: Anonymizer, stage: str, value: Any, left: Any, replies: bool
) -> None:
    row = score("1", "bird", records=(StageRecord(stage, stage, value, False),))
    assert [each.value for each in bundled(row, hidden, replies=replies).outcome.stages] == [left]
