"""Answer keys: what they change of a benchmark, in each form; and several files of training questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.answer_keys import AnswerKey, Official, read_key, read_key_file
from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.layouts import SearchPaths
from tasks.core.errors import ConfigurationError, DataError
from tasks.core.records import Question
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings

GOLD = {"7": ("SELECT 7",), "9": ("SELECT 9;",), "11": ("SELECT 11",)}
OFFICIAL = Official("mine", {name: Question(name, "How many?", "shop", "a hint") for name in GOLD}, GOLD)


ENTRY = {"question_id": 7, "action": "replace", "sql": "SELECT 1", "reason": "r", "source": "s"}
SAME = {"db_id": "shop", "question": "How  many?"}


def bird_dev(*changes: str) -> BenchmarkSettings:
    return load_benchmark_settings(find_conf(), "bird-dev", [f"benchmark.{each}" for each in changes])


def key_of(folder: Path, name: str, content: Any, official: Official = OFFICIAL) -> AnswerKey:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text, encoding="utf-8")
    return read_key_file("key", folder / name, official)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "key.json",
            [
                {"question_id": 7, **SAME, "SQL": "SELECT  7", "difficulty": "simple"},
                {"question_id": 9, **SAME, "SQL": "SELECT 90", "correction": "Wrong."},
                {"question_id": 11, **SAME, "SQL": ["SELECT 11", "SELECT 12"]},
            ],
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
        (
            "floats.jsonl",
            '{"id": 9.0, "SQL": "SELECT 90", "reason": "Wrong."}\n{"id": 11.0, "SQL": "SELECT 11"}\n'
            '{"id": " 11", "SQL": "SELECT 12"}\n',
        ),
    ],
)
def test_what_differs_in_a_key_replaces_the_gold(tmp_path: Path, name: str, text: Any) -> None:
    key = key_of(tmp_path, name, text)
    assert key.problems == ()
    assert {name: (each.action, each.sql, each.reason) for name, each in key.entries.items()} == {
        "9": ("replace", ("SELECT 90",), "Wrong."),
        "11": ("replace", ("SELECT 11", "SELECT 12"), f"differs in {name}"),
    }


@pytest.mark.parametrize(("text", "message"), [
    ({"7": "SELECT 1"}, r'must hold an object with the key "corrections".*question_id and SQL'),
    ([{"SQL": "SELECT 1"}], 'the key "question_id" is missing'),
    ([{"question_id": 7}], 'or "sql" or "query" is missing'),
    ([ENTRY], r'stand in an object: {"corrections": \[...\]}'),
])  # fmt: skip
def test_a_file_that_is_no_key_is_told_what_it_may_be(tmp_path: Path, text: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        key_of(tmp_path, "key.json", text)


def test_a_list_has_no_answer_to_other_questions_and_corrections_keep_gold(tmp_path: Path) -> None:
    assert key_of(tmp_path, "key.csv", "id,sql\n7,SELECT 70\n").absent == {"9", "11"}
    entry = {name: value for name, value in ENTRY.items() if name != "sql"} | {"action": "withdraw"}
    assert key_of(tmp_path, "key.json", {"corrections": [entry]}).absent == frozenset()


def test_other_blanks_in_a_literal_are_another_sql_and_outside_they_are_none(tmp_path: Path) -> None:
    golds = {"7": ("SELECT a FROM t WHERE b = 'x  y'",), "9": ("SELECT 9 -- all\n;",), "11": ("SELECT 1",)}
    official = Official("mine", OFFICIAL.questions, golds)
    lines = ["SELECT a\n FROM t WHERE b = 'x y'", "SELECT   9 -- all\n", "SELECT\t1;"]
    rows = [{"question_id": name, "SQL": sql} for name, sql in zip(golds, lines, strict=True)]
    assert list(key_of(tmp_path, "key.json", rows, official).entries) == ["7"]


def test_another_text_is_another_question_and_blanks_are_none(tmp_path: Path) -> None:
    rows = [
        {"question_id": 7, "question": "How  many? ", "evidence": "a hint", "SQL": "SELECT 7"},
        {"question_id": 9, "question": "How few?", "SQL": "SELECT 9"},
        {"question_id": 11, "question": "How many?", "evidence": "", "SQL": "SELECT 11"},
    ]
    key = key_of(tmp_path, "key.json", rows)
    other = [name for name, each in key.entries.items() if not each.has_text_of(OFFICIAL.questions[name])]
    assert list(key.entries) == other == ["9", "11"]
    corrected = {"corrections": [{**ENTRY, "question": "Why?"}]}
    (one,) = key_of(tmp_path, "key.json", corrected).entries.values()
    assert not one.has_text_of(OFFICIAL.questions["7"])


@pytest.mark.parametrize(("text", "problem"), [
    ("id,sql\n7,SELECT 7\n12,SELECT 1\n", "mine has no such question: 12"),
    ("id,sql\na,SELECT 7\nb,SELECT 1\n", "none of its ids is a question of mine.*key of another benchmark"),
    ("id,db_id,sql\n7,office,SELECT 7\n", "another database than the benchmark for 1 question: question 7 .office"),
    ("id,sql\n", "it has no answer"),
])  # fmt: skip
def test_a_key_of_other_questions_is_one_message(tmp_path: Path, text: str, problem: str) -> None:
    key = key_of(tmp_path, "key.csv", text)
    with pytest.raises(DataError, match=f"(?s)answer key key .*cannot be used, 1 problem.*{problem}"):
        key.demand_valid()


@pytest.mark.parametrize(("keys", "message"), [
    ("[a/one.json, b/one.csv]", 'two keys have the name "one"'),
    ("strict=one.json", '"strict" cannot be the name of a key, another score has it'),
    ("one_bird.json", "another score has it"),
    ("my key.json", "use letters, digits"),
])  # fmt: skip
def test_names_of_keys_are_checked_with_the_settings(keys: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        bird_dev(f"answer_keys={keys}")


def test_files_are_found_from_the_working_directory_and_benchmarks_by_their_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = bird_dev("answer_keys=[arcwise, mine=a.json, b.csv]")
    assert found.answer_keys == ("arcwise", f"mine={tmp_path / 'a.json'}", str(tmp_path / "b.csv"))


def test_arcwises_key_changes_3_sqls_and_5_texts_of_superhero(shared_data: Path, tmp_path: Path) -> None:
    """Counted in the published files: 52 questions, of which 743, 751 and 788 have other SQL."""
    given = {"data": shared_data, "home": tmp_path, "conf": find_conf()}
    benchmark = load_benchmark(bird_dev(), **given)
    hero = {question.id: question for question in benchmark.questions}
    golds = {name: (sql,) for name, sql in benchmark.gold.items()}
    places = SearchPaths(**given)
    key = read_key("arcwise", Official("bird-dev", hero, golds, "sqlite"), bird_dev(), places)
    assert (key.problems, key.notes, len(key.absent)) == ((), (), 1534 - 498)
    ours = {name: each for name, each in key.entries.items() if hero[name].database_id == "superhero"}
    assert [name for name, each in ours.items() if each.sql != golds[name]] == ["743", "751", "788"]
    assert [name for name, each in ours.items() if not each.has_text_of(hero[name])] == [
        "728", "751", "765", "788", "791",
    ]  # fmt: skip
    with pytest.raises(
        ConfigurationError, match="is written in sqlite, the databases of bird-dev are postgres"
    ):
        read_key("arcwise", Official("bird-dev", hero, golds, "postgres"), bird_dev(), places)


def test_several_files_of_training_questions_are_read_one_after_the_other(bird: Any) -> None:
    for name in ("a", "b"):
        bird.write(f"{name}.json", [{"db_id": "shop", "question": name, "SQL": "SELECT 1"}])
    benchmark = bird.load(train=("a.json", "b.json"))
    assert [shown.question for shown in benchmark.demonstrations] == ["a", "b"]
    with pytest.raises(DataError, match=r"not at .*c\.json"):
        _ = bird.load(train=("a.json", "c.json")).demonstrations
    assert bird_dev("train=[a.json, b.json]").train_files == ("a.json", "b.json")
    with pytest.raises(ConfigurationError) as raised:
        bird_dev("revision=[a, b]")
    assert "Put it in quotes" not in str(raised.value)
