"""Corrected keys in a benchmark's own layout as corrections of its gold, and several files of training questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.overlay import read_overlay
from tasks.core.errors import ConfigurationError, DataError
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings

GOLD = {"7": "SELECT 7", "9": "SELECT 9;", "11": "SELECT 11"}


def entries(file: Path) -> dict[str, Any]:
    overlay = read_overlay(file, GOLD, GOLD)
    assert overlay.problems == ()
    return {name: (entry.action, entry.sql, entry.reason) for name, entry in overlay.entries.items()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "key.json",
            json.dumps(
                [
                    {
                        "question_id": 7,
                        "db_id": "shop",
                        "question": "?",
                        "SQL": "SELECT  7",
                        "difficulty": "simple",
                    },
                    {
                        "question_id": 9,
                        "db_id": "shop",
                        "question": "?",
                        "SQL": "SELECT 90",
                        "correction": "Wrong.",
                    },
                    {"question_id": 11, "db_id": "shop", "question": "?", "SQL": ["SELECT 11", "SELECT 12"]},
                ]
            ),
        ),
        (
            "key.csv",
            'Question ID,Gold SQL,Reason\n7,SELECT 7,\n9,SELECT 90,Wrong.\n11,SELECT 11,\n11,"SELECT 12",\n',
        ),
        (
            "key.jsonl",
            '{"question_id": 9, "SQL": "SELECT 90", "reason": "Wrong."}\n'
            '{"question_id": 11, "SQL": ["SELECT 11", "SELECT 12"]}\n',
        ),
    ],
)
def test_what_differs_in_a_key_replaces_the_gold(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert entries(file) == {
        "9": ("replace", ("SELECT 90",), "Wrong."),
        "11": ("replace", ("SELECT 11", "SELECT 12"), f"differs from the gold in {name}"),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"7": "SELECT 1"}',
            r'must hold an object with the key "corrections".*or be a key in BIRD\'s layout',
        ),
        ('[{"SQL": "SELECT 1"}]', 'the key "question_id" is missing'),
        ('[{"question_id": 7}]', 'or "sql" or "query" is missing'),
        (
            '[{"question_id": 7, "action": "replace", "sql": "x"}]',
            r'stand in an object: {"corrections": \[...\]}',
        ),
    ],
)
def test_a_file_that_is_no_key_is_refused_with_what_it_may_be(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "key.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_overlay(file, GOLD, GOLD)


def test_arcwises_corrected_mini_dev_is_an_overlay_of_78_golds(shared_data: Path) -> None:
    questions = json.loads((shared_data / "bird-mini-dev/mini_dev_sqlite.json").read_text(encoding="utf-8"))
    gold = {str(question["question_id"]): question["SQL"] for question in questions}
    overlay = read_overlay(shared_data / "bird-mini-dev/arcwise_mini_dev_cleaned.json", gold, gold)
    assert (len(overlay.entries), overlay.problems) == (78, ())
    assert all(entry.action == "replace" for entry in overlay.entries.values())


def test_several_files_of_training_questions_are_read_one_after_the_other(bird: Any) -> None:
    for name in ("a", "b"):
        bird.write(f"{name}.json", [{"db_id": "shop", "question": name, "SQL": "SELECT 1"}])
    benchmark = bird.load(train=("a.json", "b.json"))
    assert [shown.question for shown in benchmark.demonstrations] == ["a", "b"]
    with pytest.raises(DataError, match=r"not at .*c\.json"):
        _ = bird.load(train=("a.json", "c.json")).demonstrations
    assert load_benchmark_settings(
        find_conf(), "bird-dev", ["benchmark.train=[a.json, b.json]"]
    ).train_files == (
        "a.json",
        "b.json",
    )
    with pytest.raises(ConfigurationError) as raised:
        load_benchmark_settings(find_conf(), "bird-dev", ["benchmark.revision=[a, b]"])
    assert "Put it in quotes" not in str(raised.value)
