"""`crosscheck benchmarks prepare`: descriptions are bought once, table by table, and reach the prompts."""

import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flows.evaluate import descriptions
from tasks.benchmarks.descriptions import GeneratedColumn, read_generated
from tasks.database.database import open_database
from tests.support.command_line import CommandLine, end, wait_until
from tests.support.fake_openai import Body, FakeOpenAI, unauthorized
from tests.support.own_benchmark import OwnBenchmark

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:9/v1"
"""Where nobody listens."""
LIST = re.compile(r"### Columns to describe\n(.+)")


@pytest.fixture
def gaps(own_benchmark: OwnBenchmark) -> OwnBenchmark:
    """A benchmark with a table that nothing is said of, and two tables that lack a column each."""
    own_benchmark.describe_no_column_of("city_library", "branch")
    own_benchmark.undescribe("film_festival", "film", "title")
    own_benchmark.undescribe("city_library", "author", "born")
    return own_benchmark


@pytest.fixture
def where(own_benchmark: OwnBenchmark) -> tuple[str, ...]:
    """The words that name it."""
    return ("--benchmark", str(own_benchmark.file), "--data", str(own_benchmark.folder.parent))


@pytest.fixture
def describer(model: FakeOpenAI) -> FakeOpenAI:
    """A model that describes every column it is asked for; for other requests it answers as the offline one."""
    ordinary = model.answer

    def answer(body: Body) -> str:
        asked = LIST.search(body["messages"][-1]["content"])
        if not asked:
            return ordinary(body)
        return json.dumps({"descriptions": {name: f"told of {name}" for name in asked[1].split(", ")}})

    model.answer = answer
    return model


def asked_of(model: FakeOpenAI) -> list[list[str]]:
    """The columns that each request asked for."""
    return sorted(LIST.findall(request.prompt)[0].split(", ") for request in model.requests)


@pytest.mark.usefixtures("gaps")
def test_only_undescribed_columns_are_asked_for_once_a_table_and_the_next_evaluation_shows_them(
    crosscheck: CommandLine, where: tuple[str, ...], backbone_file: str, describer: FakeOpenAI
) -> None:
    arguments = (*where, "--backbone", backbone_file)
    first = crosscheck.run("benchmarks", "prepare", *arguments)
    assert first.code == 0, first.err
    branch, *others = sorted(asked_of(describer), key=len, reverse=True)
    assert len(branch) > 1 and sorted(others) == [["born"], ["title"]]
    count = len(branch) + 2
    assert first.out == (
        f"2 databases; {count} columns without a description, {count} described; 3 model calls.\n"
    )
    assert "3 tables, 0 restored from earlier runs" in first.err and "Traceback" not in first.err

    second = crosscheck.run("benchmarks", "prepare", *arguments, "--json")
    assert second.code == 0, second.err
    counts = dict.fromkeys(("undescribed", "described", "left_out", "calls"), 0)
    assert second.json == counts | {"databases": 2, "failures": {}}
    assert len(describer.requests) == 3

    shown = ("--pipeline", "few-shot", "--set", "pipeline.descriptions=true", "--limit", "1")
    evaluated = crosscheck.run("evaluate", *arguments, *shown)
    assert evaluated.code == 0, evaluated.err
    prompts = [request.prompt for request in describer.requests[3:]]
    assert any("# `author`.`born`: told of born" in prompt for prompt in prompts)


@pytest.mark.usefixtures("gaps")
def test_a_run_names_the_generated_descriptions_in_its_prompts_and_a_comparison_lists_them(
    crosscheck: CommandLine, where: tuple[str, ...]
) -> None:
    shown = (*where, "--pipeline", "few-shot", "--limit", "2", "--set", "pipeline.descriptions=true")
    before = crosscheck.run("evaluate", *shown, "--json")
    assert (before.code, "generated_descriptions" in before.json["tags"]) == (0, False), before.err
    prepared = crosscheck.run("benchmarks", "prepare", *where)
    assert prepared.code == 0, prepared.err
    assert "Written by offline. Prompts of every model" in prepared.err

    hidden = crosscheck.run("evaluate", *where, "--pipeline", "few-shot", "--limit", "2", "--json")
    assert (hidden.code, "generated_descriptions" in hidden.json["tags"]) == (0, False), hidden.err
    after = crosscheck.run("evaluate", *shown, "--json")
    assert after.code == 0, after.err
    said = after.json["tags"]["generated_descriptions"]
    assert re.fullmatch(r"\d+ columns by offline \([0-9a-f]{8}\)", said)
    assert f"had a backbone write: {said}." in after.err

    compared = crosscheck.run("compare", before.json["run_id"], after.json["run_id"])
    assert compared.code == 0, compared.err
    assert "benchmark.generated_descriptions" in compared.out
    assert f"generated_descriptions: {said}" in crosscheck.run("show", after.json["run_id"], "--details").out
    again = crosscheck.run("rerun", before.json["run_id"], "--only", "wrong", *where[2:], "--json")
    assert again.code == 0, again.err
    assert f"(none) than those of this run ({said})" in again.err
    assert again.json["tags"]["generated_descriptions"] == said


def test_stopped_by_ctrl_c_it_continues_without_asking_anything_twice(
    crosscheck: CommandLine,
    own_benchmark: OwnBenchmark,
    where: tuple[str, ...],
    backbone_file: str,
    describer: FakeOpenAI,
) -> None:
    for table in ("author", "branch", "copy", "loan", "member", "work"):
        own_benchmark.describe_no_column_of("city_library", table)
    two = ("--backbone", backbone_file, "--set", "backbone.concurrency=2")
    arguments = ("benchmarks", "prepare", *where, *two)
    describer.latency = 1.0
    process = crosscheck.start(*arguments)
    wait_until(lambda: len(describer.requests) > 2)
    stopped = end(process, signal.SIGINT)
    stopped.assert_refused("run the same command again to continue", code=130)
    asked = len(describer.requests)
    assert asked < 6

    describer.latency = 0
    ran = crosscheck.run(*arguments, "--json")
    assert ran.code == 0, ran.err
    assert len(describer.requests) == 6
    assert ran.json["calls"] == 6 - asked
    assert len({request.prompt for request in describer.requests}) == 6


@pytest.mark.usefixtures("gaps")
def test_a_table_that_fails_is_named_with_exit_code_3_and_the_same_command_mends_it(
    crosscheck: CommandLine, where: tuple[str, ...], backbone_file: str, describer: FakeOpenAI
) -> None:
    single = ("--set", "backbone.retries=0", "--set", "backbone.concurrency=1", "--json")
    arguments = ("benchmarks", "prepare", *where, "--backbone", backbone_file, *single)
    describer.always(unauthorized())
    crosscheck.run(*arguments).assert_refused("The key")
    assert len(describer.requests) == 1, "a refused key is not tried again for every table"
    gone = crosscheck.run(*arguments, "--set", "backbone.retries=1", "--set", f"backbone.base_url={NOBODY}")
    assert (gone.code, gone.err.count("crosscheck: ")) == (3, 1)

    ordinary = describer.answer

    def fail_on_title(body: Body) -> str:
        if LIST.findall(body["messages"][-1]["content"]) == ["title"]:
            raise ConnectionError
        return ordinary(body)

    describer.always(None)
    describer.answer = fail_on_title
    failed = crosscheck.run(*arguments)
    assert failed.code == 3, failed.err
    assert (list(failed.json["failures"]), failed.json["calls"]) == (["film_festival.film"], 2)
    assert "film_festival.film" in failed.err

    describer.answer = ordinary
    mended = crosscheck.run(*arguments)
    assert mended.code == 0, mended.err
    assert (mended.json["undescribed"], mended.json["described"], mended.json["calls"]) == (1, 1, 1)


def test_two_preparations_at_once_keep_the_descriptions_of_both(
    built_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = built_demo.rglob("city_library.sqlite")
    database = open_database(path, "city_library")

    def read(home: Path, digest: str) -> dict[tuple[str, str], GeneratedColumn]:
        found = read_generated(home, digest)
        time.sleep(0.2)
        return found

    monkeypatch.setattr(descriptions, "read_generated", read)
    tables = ("branch", "author")
    with ThreadPoolExecutor() as threads:
        list(
            threads.map(lambda name: descriptions._keep(tmp_path, database, name, {"id": "It."}, "m"), tables)
        )
    assert {table for table, _ in read_generated(tmp_path, database.digest)} == set(tables)


@pytest.mark.usefixtures("gaps")
def test_columns_that_the_model_leaves_out_are_counted(
    crosscheck: CommandLine, where: tuple[str, ...], backbone_file: str, describer: FakeOpenAI
) -> None:
    describer.answer = lambda body: json.dumps({"descriptions": {"title": "its name", "no_such": "column"}})
    ran = crosscheck.run("benchmarks", "prepare", *where, "--backbone", backbone_file)
    assert ran.code == 0 and ", 1 described;" in ran.out
    assert "Left out of the model's replies: 6 columns." in ran.err
