"""A benchmark of a user's own, on machines that are not as ours: missing files, odd folders, other languages."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tasks.results.warehouse.runs import Warehouse
from tests.support import in_process
from tests.support.command_line import CommandLine, finish
from tests.support.demo import write_predictions
from tests.support.fake_openai import FakeOpenAI
from tests.support.own_benchmark import OwnBenchmark

CHEAP = ("--pipeline", "zero-shot")
WITHOUT_GOLD = """
from dataclasses import replace

from tasks.benchmarks.layouts import Layout


class WithoutGold(Layout):
    def read_split(self, path):
        split = super().read_split(path)
        return replace(split, gold=dict(list(split.gold.items())[{lost}:]))
"""
GIVEN_GOLD = ("--pipeline", "rsl-sql", "--set", "pipeline.linking.directions=gold")


def benchmark_of(own: OwnBenchmark) -> tuple[str, ...]:
    return ("--benchmark", str(own.file), "--data", str(own.folder.parent), *CHEAP)


def without_gold(own: OwnBenchmark, lost: int) -> None:
    """Take the gold SQL of the first questions away."""
    own.file.with_name("layout.py").write_text(WITHOUT_GOLD.format(lost=lost), encoding="utf-8")
    settings = own.file.read_text(encoding="utf-8")
    layout = settings.replace("layout: bird", "layout: layout.py:WithoutGold")
    own.file.write_text(layout, encoding="utf-8")


def bytes_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_missing_database_is_counted_and_named_and_the_rest_is_scored_under_the_benchmarks_rule(
    crosscheck: CommandLine, own_benchmark: OwnBenchmark
) -> None:
    own_benchmark.remove("film_festival")
    before = bytes_in(own_benchmark.folder)
    ran = crosscheck.run("evaluate", *benchmark_of(own_benchmark))
    assert ran.code == 0, ran.err
    assert "6 of 12 questions are not scored, the database is missing: film_festival (6)" in ran.out
    assert " of 6, rule strict," in ran.out
    assert bytes_in(own_benchmark.folder) == before
    assert "\x1b" not in ran.out + ran.err and "Traceback" not in ran.out + ran.err
    assert all(line.rstrip() == line for line in ran.err.splitlines())

    record = crosscheck.run("show", "latest", "--json").json
    assert (record["questions"], record["total"], record["rule"]) == (12, 6, "strict")
    assert "training_questions" not in record["tags"], "it shows no demonstration"


@pytest.mark.slow
def test_a_question_without_gold_fails_alone_where_parts_of_the_gold_are_given(
    crosscheck: CommandLine, own_benchmark: OwnBenchmark
) -> None:
    without_gold(own_benchmark, lost=1)
    ran = crosscheck.run("evaluate", *benchmark_of(own_benchmark), *GIVEN_GOLD, "--limit", "3", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["questions"], ran.json["scored"], ran.json["answered"]) == (3, 2, 2)
    assert ran.json["without_gold"] == 1
    lost = Warehouse(crosscheck.home / "warehouse.duckdb").read_run(ran.json["run_id"]).rows[0].outcome
    assert lost.failure is not None and lost.failure.kind == "missing_gold"
    assert lost.stages == (), "nothing was asked for an answer that cannot be given"


@pytest.mark.parametrize(("lost", "options"), [(12, ()), (1, ("--limit", "1"))])
def test_where_no_question_has_gold_a_setting_that_gives_parts_of_it_is_refused_before_anything_is_asked(
    own_benchmark: OwnBenchmark,
    backbone_file: str,
    model: FakeOpenAI,
    tmp_path: Path,
    lost: int,
    options: tuple[str, ...],
) -> None:
    without_gold(own_benchmark, lost=lost)
    words = ("--backbone", backbone_file, "--home", str(tmp_path / "home"), *GIVEN_GOLD, *options)
    none = f"none of the selected questions of mine ({lost}) has one"
    ran = in_process.run("evaluate", *benchmark_of(own_benchmark), *words)
    ran.assert_refused("pipeline.linking.directions=gold", none)
    assert model.requests == []


def test_without_any_database_there_is_one_message_that_says_where_they_would_be(
    own_benchmark: OwnBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    for name in ("city_library", "film_festival"):
        own_benchmark.remove(name)
    ran = in_process.run("evaluate", *benchmark_of(own_benchmark))
    ran.assert_refused(str(own_benchmark.database("city_library")), "the office next door", "--data")


@pytest.mark.slow
def test_a_home_with_blanks_and_umlauts_works_without_home_and_in_the_c_locale(
    crosscheck: CommandLine, own_benchmark: OwnBenchmark, tmp_path: Path
) -> None:
    home, elsewhere = tmp_path / "Mein Höme 'x' & #1 100%", tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = crosscheck.all_of_environment | {
        "PREFECT_HOME": str(home / "prefect"), "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
        "LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii",
    }  # fmt: skip
    for name in ("HOME", "CROSSCHECK_HOME"):
        environment.pop(name, None)
    command = crosscheck.command(
        "evaluate", *benchmark_of(own_benchmark), "--home", str(home), "--limit", "2"
    )
    process = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, timeout=240)
    out, err = process.stdout.decode("ascii"), process.stderr.decode("ascii")
    assert process.returncode == 0, err
    assert "mine ? offline ? zero-shot\n" in out
    assert "Traceback" not in err
    assert {"mlflow.db", "warehouse.duckdb", "stages.sqlite"} <= {path.name for path in home.iterdir()}
    assert list(elsewhere.iterdir()) == [], "something was written outside of the working folder"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("Mein")] == [home.name]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody may write")
@pytest.mark.parametrize("command", ["evaluate", "benchmarks prepare"])
def test_a_folder_that_cannot_be_written_is_one_message(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/proc")
    monkeypatch.setenv("CROSSCHECK_HOME", "")
    ran = in_process.run(*command.split())
    ran.assert_refused("The working folder /proc/.crosscheck cannot be made: ", "--home")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_data_that_may_only_be_read_is_enough(crosscheck: CommandLine, own_benchmark: OwnBenchmark) -> None:
    everything = [own_benchmark.folder, *own_benchmark.folder.rglob("*")]
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        ran = crosscheck.run("evaluate", *benchmark_of(own_benchmark), "--limit", "2")
    finally:
        for path in everything:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("name", ["why?", "50%25"])
def test_a_home_whose_name_a_database_would_misread_is_refused(tmp_path: Path, name: str) -> None:
    in_process.run("benchmarks", "prepare", "--home", str(tmp_path / name)).assert_refused(name)
    assert not (tmp_path / name).exists()


@pytest.mark.slow
def test_two_evaluations_that_begin_at_once_in_an_empty_working_folder_both_finish(
    crosscheck: CommandLine, own_benchmark: OwnBenchmark
) -> None:
    arguments = ("evaluate", *benchmark_of(own_benchmark), "--limit", "3", "--json")
    both = [crosscheck.start(*arguments, "--set", f"pipeline.prompt.sample_rows={n}") for n in (1, 2)]
    ended = [finish(process) for process in both]
    assert [ran.code for ran in ended] == [0, 0], "\n".join(ran.err for ran in ended)
    runs = [ran.json["mlflow"]["run_id"] for ran in ended]
    assert len(set(runs)) == 2


def test_soft_f1_is_that_of_the_nearest_of_several_golds(own_benchmark: OwnBenchmark, in_home: None) -> None:
    """An answer that is right by any gold is no worse by its cells."""
    file = own_benchmark.folder / "dev.json"
    questions = json.loads(file.read_text(encoding="utf-8"))
    golds = {str(question["question_id"]): f"{question['SQL']};" for question in questions}
    for question in questions:
        question["SQL"] = ["SELECT 'another reading', 2, 3", question["SQL"]]
    file.write_text(json.dumps(questions), encoding="utf-8")
    answers = write_predictions(own_benchmark.folder / "answers.jsonl", golds)
    words = ("--benchmark", str(own_benchmark.file), "--data", str(own_benchmark.folder.parent))
    ran = in_process.run("score", *words, "--predictions", answers, "--soft-f1", "--json")
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    assert record["correct"] == record["total"] == record["metrics"]["soft_f1"]["sum"] == len(questions)


@pytest.mark.slow
def test_runs_with_other_training_questions_are_told_apart(
    crosscheck: CommandLine, own_benchmark: OwnBenchmark
) -> None:
    command = ("evaluate", *benchmark_of(own_benchmark), "--pipeline", "few-shot", "--limit", "3", "--json")
    before = crosscheck.run(*command)
    train = own_benchmark.folder / "train.json"
    train.write_text(json.dumps(json.loads(train.read_text(encoding="utf-8"))[5:]), encoding="utf-8")
    after = crosscheck.run(*command)
    first, second = (ran.json["tags"]["training_questions"] for ran in (before, after))
    assert first != second
    compared = crosscheck.run("compare", before.json["run_id"], after.json["run_id"])
    assert re.search(rf"benchmark\.training_questions +{re.escape(first)} +{re.escape(second)}", compared.out)
    data = ("--data", str(own_benchmark.folder.parent))
    again = crosscheck.run("rerun", before.json["run_id"], "--from", "preliminary_sql", *data, "--json")
    assert (
        f"chosen from {first}, those of this run from {second}. This run merges answers of both." in again.err
    )
