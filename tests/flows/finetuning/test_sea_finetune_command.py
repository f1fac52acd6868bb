"""`crosscheck finetune` and SEA-SQL with an eliminator, as users run them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.settings.home import find_conf
from tests.support import in_process
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI
from tests.tasks.finetuning.conftest import tiny_model

__all__ = ["tiny_model"]

LIMIT = ("--limit", "8")
TRAIN = ("--set", "benchmark.questions=train.json", "--set", "benchmark.train=null")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_pairs_are_what_the_eliminator_sees_and_what_it_should_say(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pairs.jsonl"
    made = (
        "finetune",
        "dataset",
        "--backbone",
        backbone_file,
        *LIMIT,
        "--output",
        str(file),
        "--held-out",
        "0.3",
    )
    first = demo.run(*made, "--json")
    assert first.code == 0, first.err
    assert "Traceback" not in first.err
    pairs, held_out = lines(file), lines(tmp_path / "pairs.held-out.jsonl")
    counts = first.json
    assert (counts["pairs"], counts["held_out"]) == (len(pairs), len(held_out)) and pairs and held_out
    assert (
        counts["questions"]
        == 8
        == sum(
            counts[key]
            for key in ("pairs", "held_out", "like_evaluated", "without_sql", "gold_faults", "duplicates")
        )
    )
    assert counts["right"] == sum(pair["right"] for pair in (*pairs, *held_out))
    for pair in (*pairs, *held_out):
        assert pair["response"] == (pair["sql"] if pair["right"] else pair["gold"].rstrip("; \n"))
    asked = len(model.requests)
    assert counts["calls"] == asked

    again = demo.run(*made)
    assert again.code == 0 and len(model.requests) == asked
    assert f"{len(pairs)} training pairs in {file}" in again.out
    assert lines(file) == pairs

    evaluated = demo.run(
        "evaluate", "--backbone", backbone_file, "--pipeline", "sea-sql", *TRAIN, *LIMIT,
        "--set", f"pipeline.eliminator={backbone_file}", "--json",
    )  # fmt: skip
    assert evaluated.code == 0, evaluated.err
    shown = {prompt for prompt in model.prompts if prompt.startswith("### Instruction")}
    taught = {
        f"### Instruction\n{pair['instruction']}\n\n### Input\n{pair['input']}\n\n### Response\nQuery:\n"
        for pair in (*pairs, *held_out)
    }
    assert taught <= shown
    stages = [stage["name"] for stage in evaluated.json["stages"]]
    assert stages == ["1_preliminary_sql", "2_bias_elimination", "3_execution_adjustment"]

    monkeypatch.setenv("CROSSCHECK_HOME", str(demo.home))
    judged = in_process.run(
        "finetune", "evaluate", "--pairs", str(tmp_path / "pairs.held-out.jsonl"), "--trained-on", str(file),
        "--eliminator", backbone_file, "--json",
    )  # fmt: skip
    assert judged.code == 0, judged.err
    right = sum(pair["right"] for pair in held_out)
    assert judged.json["before"] == {"correct": right, "total": len(held_out), "value": right / len(held_out)}
    assert judged.json["after"]["total"] == len(held_out)
    refused = in_process.run(
        "finetune", "evaluate", "--pairs", str(file), "--trained-on", str(file), "--eliminator", backbone_file
    )
    assert refused.code == 2 and "ask what the eliminator was trained on" in refused.err


@pytest.mark.slow
def test_one_command_makes_pairs_from_several_benchmarks(
    demo: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = yaml.safe_load((find_conf() / "benchmarks" / "demo.yaml").read_text(encoding="utf-8"))
    for name in ("one", "two"):
        split = {**conf, "questions": "train.json", "train": None}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(split), encoding="utf-8")
    file = tmp_path / "pairs.jsonl"
    ran = demo.run(
        "finetune", "dataset", "--training", str(tmp_path / "one.yaml"), "--training", str(tmp_path / "two.yaml"),
        "--limit", "4", "--held-out", "0.3", "--output", str(file), "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    pairs = [*lines(file), *lines(tmp_path / "pairs.held-out.jsonl")]
    # the same questions twice: the second split's are asked, and their pairs left out as duplicates
    assert (ran.json["questions"], ran.json["duplicates"], len(pairs)) == (8, 4, 4)
    assert {pair["benchmark"] for pair in pairs} == {"one"}
    monkeypatch.setenv("CROSSCHECK_HOME", str(demo.home))
    judged = in_process.run(
        "finetune", "evaluate", "--pairs", str(file), "--training", str(tmp_path / "two.yaml"),
        "--eliminator", "offline",
    )  # fmt: skip
    assert judged.code == 2 and "of one, but it is not in two" in judged.err


def test_the_evaluated_split_is_refused_as_training_data(
    built_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(built_demo))
    output = tmp_path / "pairs.jsonl"
    ran = in_process.run("finetune", "dataset", "--training", "demo", "--output", str(output))
    assert ran.code == 2
    assert "of the training questions are in the evaluated split demo" in ran.err
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("dataset", "--pipeline", "rsl-sql", "--output", "p.jsonl"), "Training pairs are made with SEA-SQL"),
        (
            ("dataset", "--benchmark", "bird-dev", "--output", "p.jsonl"),
            "has its training questions in train.parquet",
        ),
        (("train", "--pairs", "none.jsonl", "--output", "out"), "cannot be read"),
        (("train", "--pairs", "none.jsonl", "--output", "out", "--set", "rnak=3"), 'Did you mean "rank"?'),
        (
            ("train", "--pairs", "none.jsonl", "--output", "out", "--set", "rank=0"),
            "greater than or equal to 1",
        ),
        (
            ("train", "--pairs", "none.jsonl", "--output", "out", "--set", "learning_rate=fast"),
            "--set learning_rate: Input should be a valid number",
        ),
        (
            ("train", "--pairs", "none.jsonl", "--output", "out", "--set", "rank=["),
            "--set rank: Input should be a valid integer",
        ),
        (("evaluate", "--pairs", "none.jsonl"), "Name either --adapter FOLDER or --eliminator NAME"),
        (("evaluate", "--pairs", "none.jsonl", "--adapter", "none"), "none.jsonl cannot be read"),
    ],
)
def test_what_is_wrong_is_said_in_words(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    ran = in_process.run("finetune", *arguments)
    assert ran.code == 2 and said in " ".join(ran.err.split()), ran.err
    assert "Traceback" not in ran.err


@pytest.mark.slow
def test_training_is_logged_to_mlflow_and_the_adapter_is_judged(
    tiny_model: Path, built_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    from tasks.finetuning.pairs import TrainingPair, write_pairs

    home = tmp_path / "home"
    shutil.copytree(built_demo, home)
    monkeypatch.setenv("CROSSCHECK_HOME", str(home))
    file, output = tmp_path / "pairs.jsonl", tmp_path / "out"
    gold = "SELECT 1"
    pairs = [
        TrainingPair("Judge.", f"q{n}", gold, str(n), f"q{n}?", "city_library", f"SELECT {n}", gold, n == 1)
        for n in range(4)
    ]
    write_pairs(file, pairs)
    changes = [f"model={tiny_model}", "rank=2", "batch_size=2", "device_batch_size=2", "max_tokens=256"]
    command = ("finetune", "train", "--pairs", str(file), "--output", str(output))
    ran = in_process.run(*command, *(part for change in changes for part in ("--set", change)), "--json")
    assert ran.code == 0, ran.err
    assert ran.json["steps"] == 2 and ran.json["finished"]

    client = MlflowClient(tracking_uri=f"sqlite:///{home / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("crosscheck/finetuning")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert (run.data.params["rank"], run.data.params["alpha"]) == ("2", "32")
    assert [point.step for point in client.get_metric_history(run.info.run_id, "loss")] == [1, 2]
    files = [entry.path for entry in client.list_artifacts(run.info.run_id, "adapter")]
    assert "adapter/adapter_config.json" in files and "adapter/adapter_model.safetensors" in files

    judged = in_process.run(
        "finetune", "evaluate", "--pairs", str(file), "--adapter", ran.json["adapter"], "--json"
    )
    assert judged.code == 0, judged.err
    assert judged.json["before"] == {"correct": 1, "total": 4, "value": 0.25}
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["eval/pairs"] == 4 and run.data.metrics["eval/right_before"] == 1
