"""Spider 2.0-lite: tasks, documents and accepted results as published."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.benchmark import Benchmark, load_benchmark
from tasks.benchmarks.layouts import GoldResults
from tasks.core.errors import DataError
from tasks.scoring.execution.suite import read_accepted
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings

TASKS = [
    {"instance_id": "local1", "db": "shop", "question": "Who?", "external_knowledge": "rule.md"},
    {"instance_id": "bq2", "db": "big", "question": "What?", "external_knowledge": None},
    {"instance_id": "local3", "db": "shop", "question": "When?", "external_knowledge": "lost.md"},
]
STANDARDS = [
    {"instance_id": "local1", "condition_cols": [[1], [0]], "ignore_order": True, "toks": "2"},
    {"instance_id": "local3", "condition_cols": [], "ignore_order": False, "toks": "2"},
]


class Files:
    """A small Spider 2.0-lite, to be changed by a test before it is loaded."""

    def __init__(self, data: Path) -> None:
        self.data, self.folder = data, data / "spider2-lite"
        self.write("spider2-lite-local.jsonl", TASKS)
        self.write("gold/spider2lite_eval.jsonl", STANDARDS)
        self.write("gold/exec_result/local1_a.csv", "id,name\n1,Ada\n")
        self.write("gold/exec_result/local1_b.csv", "name\nBob\n")
        self.write("documents/rule.md", "A customer is a row.\n")
        (self.folder / "databases").mkdir()
        with closing(sqlite3.connect(self.folder / "databases" / "shop.sqlite")) as connection:
            connection.execute("CREATE TABLE customer (id INTEGER, name TEXT)")

    def write(self, name: str, content: str | list[dict[str, Any]]) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = content if isinstance(content, str) else "\n".join(map(json.dumps, content)) + "\n"
        path.write_text(lines, encoding="utf-8")

    def load(self) -> Benchmark:
        settings = load_benchmark_settings(find_conf(), "spider2-lite")
        return load_benchmark(settings, data=self.data, home=self.data, conf=find_conf())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_sqlite_tasks_are_read_with_their_documents_as_evidence(files: Files) -> None:
    benchmark = files.load()
    first, second = benchmark.questions
    assert (first.id, first.database_id, first.text) == ("local1", "shop", "Who?")
    assert first.evidence == "A customer is a row."
    assert (second.id, second.evidence) == ("local3", "")
    assert any("1 question needs a document" in note and "lost.md" in note for note in benchmark.notes)


def test_several_results_are_accepted_each_with_its_columns(files: Files) -> None:
    benchmark = files.load()
    assert benchmark.gold == {}
    assert benchmark.results["local1"].columns == ((1,), (0,))
    accepted = read_accepted(benchmark.results["local1"])
    assert [each.rows for each in accepted.accepted] == [((1, "Ada"),), (("Bob",),)]
    assert accepted.ignore_order
    assert benchmark.has_gold("local1")
    assert not benchmark.has_gold("local3")


@pytest.mark.parametrize(
    ("columns", "read"),
    [([], ((), ())), ([0], ((0,), (0,))), ([[0]], ((0,), (0,))), ([[1], [0], [0]], ((1,), (0,)))],
)
def test_columns_hold_for_all_results_or_are_given_for_each(files: Files, columns: Any, read: Any) -> None:
    files.write("gold/spider2lite_eval.jsonl", [{**STANDARDS[0], "condition_cols": columns}])
    assert files.load().results["local1"].columns == read


@pytest.mark.parametrize("wrong", [["a"], [-1], [[0], 1], 3, [True]])
def test_other_columns_are_refused(files: Files, wrong: Any) -> None:
    files.write("gold/spider2lite_eval.jsonl", [{**STANDARDS[0], "condition_cols": wrong}])
    with pytest.raises(DataError, match=r"condition_cols.*list of positions"):
        files.load()


def test_without_results_nothing_has_gold_and_without_standards_results_are_refused(files: Files) -> None:
    (files.folder / "gold" / "spider2lite_eval.jsonl").unlink()
    with pytest.raises(DataError, match=r"spider2lite_eval.jsonl is missing"):
        files.load()
    shutil.rmtree(files.folder / "gold" / "exec_result")
    assert files.load().results == {}


def test_a_result_with_too_few_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "local1.csv"
    path.write_text("name\nAda\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"local1.csv has 1 column, but condition_cols names column 2"):
        read_accepted(GoldResults((path,), ((2,),), ignore_order=True))


def test_the_real_tasks_load_whole(shared_data: Path) -> None:
    settings = load_benchmark_settings(find_conf(), "spider2-lite")
    benchmark = load_benchmark(settings, data=shared_data, home=shared_data, conf=find_conf())
    assert len(benchmark.questions) == 135
    assert sorted(benchmark.results) == ["local054", "local055", "local198"]
    assert len(benchmark.results["local055"].files) == 2
    assert sum(benchmark.missing.values()) == 132
    assert benchmark.other_revision == ()
