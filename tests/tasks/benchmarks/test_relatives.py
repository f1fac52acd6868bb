"""Benchmarks beside BIRD and Spider: their YAML files, and layouts where files differ."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.databases import column_descriptions
from tasks.core.errors import ConfigurationError, DataError
from tasks.settings.home import find_conf
from tasks.settings.load import available, load_benchmark_settings
from tests.support.offline_run import offline_run
from tests.tasks.benchmarks.conftest import QUESTIONS, SHOP_ENTRY, Files

NAMES = sorted(set(available(find_conf(), "benchmark")) - {"demo"})


@pytest.mark.parametrize("name", NAMES)
def test_without_files_a_benchmark_says_what_to_download_and_where_to(name: str, tmp_path: Path) -> None:
    settings = load_benchmark_settings(find_conf(), name)
    assert settings.source
    assert settings.revision
    with pytest.raises(DataError) as caught:
        load_benchmark(settings, data=tmp_path, home=tmp_path, conf=find_conf())
    folder = f'the folder that holds "{settings.folder}"'
    for part in (settings.source, settings.download, settings.licence, folder):
        assert part in str(caught.value)


def test_mini_dev_has_a_gold_per_dialect_and_none_is_judged_on_another_engine(bird: Files) -> None:
    settings = load_benchmark_settings(find_conf(), "bird-mini-dev", ["benchmark.dialect=postgresql"])
    assert settings.question_files == ("mini_dev_postgresql.json",)
    with pytest.raises(ConfigurationError, match=r"of the dialect postgresql, its databases are of sqlite"):
        bird.load(dialect="postgresql")


def test_gold_with_operators_written_apart_is_read_as_spider_executes_it(make: Any) -> None:
    """No database executes `> =`; such golds would count as faults of the benchmark."""
    files: Files = make("spider")
    golds = ["SELECT id FROM orders WHERE total > = 9", "SELECT id FROM orders WHERE total ! = 9"]
    files.write("dev.json", [{"db_id": "shop", "question": "Which?", "query": golds}])
    benchmark = files.load()
    read = [benchmark.gold["0"], *benchmark.further_gold["0"]]
    assert read == ["SELECT id FROM orders WHERE total >= 9", "SELECT id FROM orders WHERE total != 9"]


def test_spider_syn_asks_its_own_questions(make: Any) -> None:
    files: Files = make("spider-syn")
    item = {"db_id": "shop", "SpiderQuestion": "Theirs?", "SpiderSynQuestion": "Ours?", "query": "SELECT 1"}
    files.write("dev.json", [item])
    assert files.load(tables="tables.json", databases="database").questions[0].text == "Ours?"


def test_kaggle_dbqa_has_a_file_per_database_and_descriptions_in_its_tables_file(make: Any) -> None:
    files: Files = make("kaggle-dbqa")
    item = {"db_id": "shop", "question": "Who?", "query": "SELECT 1"}
    (files.folder / "examples").mkdir()
    for name in ("a_test", "b_test", "c_fewshot"):
        files.write(f"examples/{name}.json", [item, {**item, "question": "What?"}])
    texts = ["", "", "How the customer is called", "", "", "", "In  pounds"]
    files.write("tables.json", [{**SHOP_ENTRY, "column_descriptions": texts}])
    benchmark = files.load(questions="examples/*_test.json")
    names = [question.id for question in benchmark.questions]
    assert names == ["a_test-0", "a_test-1", "b_test-0", "b_test-1"]
    assert benchmark.gold["b_test-1"] == "SELECT 1"
    described = column_descriptions(benchmark, "shop")
    assert {key: each.description for key, each in described.items()} == {
        ("customers", "name"): "How the customer is called",
        ("orders", "total"): "In pounds",
    }


@pytest.mark.parametrize("pipeline", ["dac", "few-shot"])
async def test_kaggle_dbqa_is_shown_questions_of_spider(tmp_path: Path, make: Any, pipeline: str) -> None:
    files: Files = make("kaggle-dbqa")
    folder = files.data / "kaggle-dbqa"
    shutil.move(files.folder, folder)
    (folder / "database").rename(folder / "databases")
    (folder / "tables.json").rename(folder / "KaggleDBQA_tables.json")
    (folder / "examples").mkdir()
    question = {"db_id": "shop", "question": "How many orders?", "query": "SELECT COUNT(*) FROM orders"}
    (folder / "examples" / "shop_test.json").write_text(json.dumps([question]), encoding="utf-8")
    shown = {"db_id": "zoo", "question": "How many animals?", "query": "SELECT COUNT(*) FROM animal"}
    (files.data / "spider").mkdir()
    (files.data / "spider" / "train.json").write_text(json.dumps([shown]), encoding="utf-8")
    run = await offline_run(pipeline, home=tmp_path / "home", benchmark="kaggle-dbqa", data=str(files.data))
    (exchanges,) = run.heard.values()
    assert "How many animals?" in exchanges[0].prompt
    (outcome,) = run.outcomes.values()
    assert outcome.failure is None and outcome.sql


def test_bird_test_has_questions_without_gold(make: Any) -> None:
    files: Files = make("bird-test")
    files.write("test.json", [{k: v for k, v in each.items() if k != "SQL"} for each in QUESTIONS])
    benchmark = files.load(questions="test.json")
    assert (len(benchmark.questions), benchmark.gold) == (2, {})


def test_questions_and_databases_of_several_places_are_one_benchmark(bird: Files) -> None:
    other = bird.folder / "more" / "mall" / "mall.sqlite"
    other.parent.mkdir(parents=True)
    shutil.copy(bird.database, other)
    further = {"question_id": 11, "db_id": "mall", "question": "How many?", "SQL": "SELECT 2"}
    bird.write("more.json", [further])
    benchmark = bird.load(questions=["dev.json", "more.json"], databases=["dev_databases", "more"])
    assert [question.id for question in benchmark.questions] == ["7", "9", "11"]
    assert (benchmark.missing, benchmark.database_path("mall")) == ({}, other)
    assert benchmark.digest != bird.load().digest
    with pytest.raises(DataError, match=r"lacks nothing\*.json"):
        bird.load(questions=["dev.json", "nothing*.json"])


def test_a_file_of_another_revision_is_noted(bird: Files) -> None:
    assert "not the file of own's revision 1" in bird.load(sha256={"dev.json": "0" * 64}).other_revision[0]
    digest = bird.load().digest
    assert bird.load(sha256={"dev.json": digest, "absent.json": "0" * 64}).other_revision == ()
    assert json.loads(bird.load().settings.model_dump_json())["sha256"] == {}
