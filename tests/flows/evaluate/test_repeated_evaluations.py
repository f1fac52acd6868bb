"""An evaluation that a finished run has made is shown at once; what could change its result makes a new run."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from flows.evaluate import identical_run as inputs
from flows.evaluate.identical_run import inputs_digest, inputs_of, may_repeat
from flows.evaluate.preparation import prepare
from flows.runtime.control import Progress
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI
from tests.support.own_benchmark import OwnBenchmark

FEW = ("evaluate", "--pipeline", "few-shot", "--limit", "5")
SAME = "Nothing has changed since run "


def settings_of(own: OwnBenchmark, *overrides: str, home: Path, **more: object) -> EvaluationSettings:
    chosen = {"pipeline": "few-shot", "limit": 8, **more}
    return evaluation_settings(
        EvaluationChoice(
            benchmark=str(own.file),
            backbone="offline",
            overrides=overrides,
            data=str(own.folder.parent),
            home=str(home),
            **chosen,  # type: ignore[arg-type]
        )
    )


def digest(
    own: OwnBenchmark, *overrides: str, home: Path, tags: dict[str, str] | None = None, **more: object
) -> str:
    return inputs_of(prepare(settings_of(own, *overrides, home=home, **more), Progress()), tags or {})


def edit(file: Path, change: Callable[[list[dict[str, str]]], None]) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")


def change_gold(own: OwnBenchmark) -> None:
    edit(own.folder / "dev.json", lambda rows: rows[2].update(SQL="SELECT 1"))


def change_question(own: OwnBenchmark) -> None:
    edit(own.folder / "dev.json", lambda rows: rows[2].update(question="How many?"))


def change_demonstrations(own: OwnBenchmark) -> None:
    edit(own.folder / "train.json", lambda rows: [row.update(SQL=f"{row['SQL']} LIMIT 9") for row in rows])  # type: ignore[func-returns-value]


def change_description(own: OwnBenchmark) -> None:
    own.describe_no_column_of("city_library", "member")


def change_row(own: OwnBenchmark) -> None:
    with closing(sqlite3.connect(own.database("city_library"))) as connection, connection:
        connection.execute(
            "UPDATE member SET name = 'Zoe' WHERE member_id = (SELECT max(member_id) FROM member)"
        )


@pytest.mark.parametrize(
    "change", [change_gold, change_question, change_demonstrations, change_description, change_row]
)
def test_whatever_a_result_depends_on_is_in_the_digest(
    own_benchmark: OwnBenchmark, tmp_path: Path, change: Callable[[OwnBenchmark], None]
) -> None:
    home = tmp_path / "home"
    before = digest(own_benchmark, home=home)
    assert before and digest(own_benchmark, home=home) == before
    change(own_benchmark)
    assert digest(own_benchmark, home=home) != before


def test_settings_selection_labels_code_and_store_are_in_it(
    own_benchmark: OwnBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    found = [
        digest(own_benchmark, home=home),
        digest(own_benchmark, "pipeline.demonstrations.k=2", home=home),
        digest(own_benchmark, "benchmark.timeout_s=7", home=home),
        digest(own_benchmark, "tracking.sample_traces=0", home=home),
        digest(own_benchmark, home=home, limit=7),
        digest(own_benchmark, home=home, pipeline="zero-shot"),
        digest(own_benchmark, home=home, tags={"name": "new"}),
    ]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'other.db'}")
    found.append(digest(own_benchmark, home=home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.setattr("flows.evaluate.identical_run._code", lambda conf: "other code")
    found.append(digest(own_benchmark, home=home))
    monkeypatch.undo()
    monkeypatch.setattr("flows.evaluate.identical_run._versions", lambda: ("other version",))
    found.append(digest(own_benchmark, home=home))
    assert all(found) and len(set(found)) == len(found)


def test_a_changed_prompt_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(find_conf(), conf)
    monkeypatch.setenv("CROSSCHECK_CONF", str(conf))
    before = inputs_digest({})
    prompt = next((conf / "prompts").glob("*.jinja"))
    prompt.write_text(prompt.read_text(encoding="utf-8") + "Hurry.\n", encoding="utf-8")
    inputs._code.cache_clear()
    assert inputs_digest({}) != before


def test_a_compiled_module_that_python_is_writing_is_no_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "ROOT", tmp_path)
    cache = tmp_path / "tasks" / "__pycache__"
    cache.mkdir(parents=True)
    (tmp_path / "tasks" / "stage.py").write_text("STAGE = 1\n", encoding="utf-8")
    monkeypatch.setattr(inputs, "_code", inputs._code.__wrapped__)
    before = inputs_digest({})
    (cache / "stage.cpython-311.pyc.140234").write_bytes(
        b"half"
    )  # importlib writes to such a name, then renames it
    assert inputs_digest({}) == before


@pytest.mark.parametrize("more", [
    {"pipeline": "{own}"},
    {"overrides": ("benchmark.metrics=[{own}]",)},
    {"overrides": ("benchmark.efficiency=true",)},
    {"overrides": ("tracking.genai_evaluation=true",)},
    {"record": "replies.jsonl"},
    {"shards": 2},
])  # fmt: skip
def test_code_of_ones_own_and_what_others_are_to_get_are_never_repeated(
    own_benchmark: OwnBenchmark, tmp_path: Path, more: dict[str, object]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from crosscheck import FewShotSettings, few_shot, pipeline\n\n\n"
        "@pipeline(FewShotSettings)\n"
        "async def mine(question, context):\n"
        "    return await few_shot(question, context)\n",
        encoding="utf-8",
    )
    named = {
        key: tuple(each.replace("{own}", f"{file}:mine") for each in value)
        if isinstance(value, tuple)
        else str(value).replace("{own}", f"{file}:mine")
        if isinstance(value, str)
        else value
        for key, value in more.items()
    }
    overrides = named.pop("overrides", ())
    settings = settings_of(own_benchmark, *overrides, home=tmp_path / "home", **named)  # type: ignore[misc]
    assert not may_repeat(settings)
    assert may_repeat(settings_of(own_benchmark, home=tmp_path / "home"))


def runs(command: CommandLine) -> list[str]:
    return [run["run_id"] for run in command.run("runs", "--json").json["runs"]]


@pytest.mark.slow
def test_a_repeated_evaluation_shows_the_finished_run_without_a_server_and_again_makes_a_new_one(
    built_demo: Path, tmp_path: Path
) -> None:
    shutil.copytree(built_demo, tmp_path / "home")
    demo = CommandLine(tmp_path / "home")  # without a server that runs already
    first = demo.run(*FEW, "--json")
    assert first.code == 0, first.err
    log = demo.home / "prefect" / "server.log"
    log.unlink()
    again = demo.run(*FEW)
    run_id = first.json["run_id"]
    assert again.code == 0 and again.out.startswith(f"{SAME}{run_id} of "), again.out
    assert f"run {run_id} · started" in again.out and not log.exists()
    assert demo.run(*FEW, "--json").json == first.json
    assert runs(demo) == [run_id]

    new = demo.run(*FEW, "--again", "--json")
    assert new.code == 0 and not log.exists(), new.err
    assert (new.json["correct"], new.json["stages"]) == (first.json["correct"], first.json["stages"])
    assert new.json["prefect"] == {"task_runs": 0, "recorded": 0}
    assert (new.json["same_as"], len(runs(demo))) == (run_id, 2)

    labelled = demo.run(*FEW, "--name", "labelled", "--json")
    assert labelled.json["tags"]["name"] == "labelled" and len(runs(demo)) == 3
    assert not log.exists()
    changed = demo.run(*FEW, "--set", "pipeline.demonstrations.k=2", "--json")
    assert changed.json["prefect"]["task_runs"] > 1 and log.exists()


@pytest.mark.slow
def test_an_evaluation_whose_response_mode_was_found_out_is_recognised(
    demo: CommandLine, fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    fake_openai.answer = lambda body: '{"sql": "SELECT 1"}'
    file = tmp_path / "mine.yaml"  # response_mode is auto where it is left out
    file.write_text(f"kind: openai\nmodel: any\nbase_url: {fake_openai.base_url}\n", encoding="utf-8")
    words = ("evaluate", "--backbone", str(file), "--pipeline", "zero-shot", "--limit", "3", "--json")
    first = demo.run(*words)
    sent = len(fake_openai.requests)
    second = demo.run(*words)
    assert first.code == second.code == 0, first.err + second.err
    assert SAME in second.err and second.json["run_id"] == first.json["run_id"]
    assert len(fake_openai.requests) == sent > 3


@pytest.mark.slow
def test_an_evaluation_whose_retriever_was_chosen_is_recognised(demo: CommandLine) -> None:
    words = (*FEW, "--set", "pipeline.demonstrations.retriever=auto", "--json")
    first, second = demo.run(*words), demo.run(*words)
    assert SAME in second.err and second.json["run_id"] == first.json["run_id"]
