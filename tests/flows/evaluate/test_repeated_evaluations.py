"""An evaluation that a finished run has made is shown at once; what could change its result makes a new run."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

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
OWN = "mine.py:mine"
SAME = "Nothing has changed since run "


def settings_of(own: OwnBenchmark, *overrides: str, home: Path, **more: object) -> EvaluationSettings:
    plain: dict[str, Any] = {"backbone": "offline", "pipeline": "few-shot", "limit": 8}
    where = {"benchmark": str(own.file), "data": str(own.folder.parent), "home": str(home)}
    return evaluation_settings(EvaluationChoice(**where | plain | more, overrides=overrides))


Digest = Callable[..., str]


@pytest.fixture
def digest(own_benchmark: OwnBenchmark, tmp_path: Path) -> Digest:
    """Returns the digest of what the result of an evaluation depends on."""

    def of(*overrides: str, tags: dict[str, str] | None = None, **more: object) -> str:
        settings = settings_of(own_benchmark, *overrides, home=tmp_path / "home", **more)
        return inputs_of(prepare(settings, Progress()), tags or {})

    return of


def edit(file: Path, change: Callable[[list[dict[str, str]]], object]) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps(content), encoding="utf-8")


def change_row(own: OwnBenchmark) -> None:
    last = "(SELECT max(member_id) FROM member)"
    with closing(sqlite3.connect(own.database("city_library"))) as connection, connection:
        connection.execute(f"UPDATE member SET name = 'Zoe' WHERE member_id = {last}")


CHANGES: dict[str, Callable[[OwnBenchmark], None]] = {
    "gold": lambda own: edit(own.folder / "dev.json", lambda rows: rows[2].update(SQL="SELECT 1")),
    "question": lambda own: edit(own.folder / "dev.json", lambda rows: rows[2].update(question="How many?")),
    "demonstrations": lambda own: edit(
        own.folder / "train.json", lambda rows: rows[0].update(SQL="SELECT 9")
    ),
    "description": lambda own: own.describe_no_column_of("city_library", "member"),
    "row": change_row,
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_result_depends_on_is_in_the_digest(
    own_benchmark: OwnBenchmark, digest: Digest, change: str
) -> None:
    before = digest()
    assert before and digest() == before
    CHANGES[change](own_benchmark)
    assert digest() != before


def test_settings_selection_labels_code_and_store_are_in_it(
    digest: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        digest(),
        digest("pipeline.demonstrations.k=2"),
        digest("benchmark.timeout_s=7"),
        digest("tracking.sample_traces=0"),
        digest(limit=7),
        digest(pipeline="zero-shot"),
        digest(tags={"name": "new"}),
    ]
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'other.db'}")
        found.append(digest())
    for part, other in (
        ("source_digest", lambda conf: "other code"),
        ("_versions", lambda: ("other version",)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(inputs, part, other)
            found.append(digest())
    assert all(found) and len(set(found)) == len(found)


def test_a_changed_prompt_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(find_conf(), conf)
    monkeypatch.setenv("CROSSCHECK_CONF", str(conf))
    before = inputs_digest({})
    prompt = next((conf / "prompts").glob("*.jinja"))
    prompt.write_text(prompt.read_text(encoding="utf-8") + "Hurry.\n", encoding="utf-8")
    inputs.source_digest.cache_clear()
    assert inputs_digest({}) != before


def test_a_compiled_module_that_python_is_writing_is_no_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "ROOT", tmp_path)
    cache = tmp_path / "tasks" / "__pycache__"
    cache.mkdir(parents=True)
    (tmp_path / "tasks" / "stage.py").write_text("STAGE = 1\n", encoding="utf-8")
    monkeypatch.setattr(inputs, "source_digest", inputs.source_digest.__wrapped__)
    before = inputs_digest({})
    # importlib writes to such a name, then renames it
    (cache / "stage.cpython-311.pyc.140234").write_bytes(b"half")
    assert inputs_digest({}) == before


@pytest.mark.parametrize("more", [
    {"pipeline": OWN},
    {"overrides": (f"benchmark.metrics=[{OWN}]",)},
    {"overrides": ("benchmark.efficiency=true",)},
    {"overrides": ("tracking.genai_evaluation=true",)},
    {"record": "replies.jsonl"},
    {"shards": 2},
])  # fmt: skip
def test_code_of_ones_own_and_what_others_are_to_get_are_never_repeated(
    own_benchmark: OwnBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "from crosscheck import FewShotSettings, few_shot, pipeline\n\n\n"
        "@pipeline(FewShotSettings)\n"
        "async def mine(question, context):\n"
        "    return await few_shot(question, context)\n",
        encoding="utf-8",
    )
    overrides = more.get("overrides", ())
    named = {key: value for key, value in more.items() if key != "overrides"}
    home = tmp_path / "home"
    assert not may_repeat(settings_of(own_benchmark, *overrides, home=home, **named))
    assert may_repeat(settings_of(own_benchmark, home=home))


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
def test_an_evaluation_whose_response_mode_was_found_out_and_whose_retriever_was_chosen_is_recognised(
    demo: CommandLine, fake_openai: FakeOpenAI, tmp_path: Path
) -> None:
    fake_openai.answer = lambda body: '{"sql": "SELECT 1"}'
    file = tmp_path / "mine.yaml"  # response_mode is auto where it is left out
    file.write_text(f"kind: openai\nmodel: any\nbase_url: {fake_openai.base_url}\n", encoding="utf-8")
    words = (*FEW, "--backbone", str(file), "--set", "pipeline.demonstrations.retriever=auto", "--json")
    first = demo.run(*words)
    sent = len(fake_openai.requests)
    second = demo.run(*words)
    assert first.code == second.code == 0, first.err + second.err
    assert SAME in second.err and second.json["run_id"] == first.json["run_id"]
    assert len(fake_openai.requests) == sent > 5
