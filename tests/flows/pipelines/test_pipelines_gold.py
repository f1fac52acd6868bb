"""Gold SQL stays out of every prompt, key and persisted result: only scoring reads it."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from flows.evaluate.demonstration_search import DemonstrationSearch
from flows.evaluate.runner import QuestionInputs, QuestionRunner, Tools
from flows.prefect.stage_results import open_results
from flows.prefect.stage_task_runs import TaskRuns
from flows.runtime.control import Progress
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.opening import RunResources, open_backbone
from tasks.benchmarks.benchmark import Benchmark, load_benchmark
from tasks.core.outcome import Outcome
from tasks.database.database import Database, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_conf
from tasks.settings.load import load_pipeline_settings
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.kept_results import kept_results
from tests.support.prefect_home import Served, in_flow
from tests.support.stage_bench import MUSEUM, build, fake_settings, stages_run

pytestmark = pytest.mark.slow

MARKER = "xq_gold_7f3a_xq"
TRAINING = "xq_training_91c_xq"
BIRD = {
    "name": "own", "layout": "bird", "folder": "own", "revision": "1", "rule": "bird", "train": "train.json",
}  # fmt: skip


def entry(number: int, text: str, sql: str) -> dict[str, Any]:
    return {
        "question_id": number, "db_id": "museum", "question": text, "evidence": "", "SQL": sql, "difficulty": "simple",
    }  # fmt: skip


class Files:
    """A benchmark whose every gold SQL holds a marker."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.folder = data / "own"
        database = self.folder / "dev_databases" / "museum"
        database.mkdir(parents=True)
        self.database = build(database / "museum.sqlite", MUSEUM, {}).path
        tables = ["museum", "order", "guide"]
        self.write("dev_tables.json", [{
            "db_id": "museum", "table_names_original": tables, "column_names_original": [[-1, "*"]],
            "column_types": ["text"], "primary_keys": [], "foreign_keys": [],
        }])  # fmt: skip
        self.keys: tuple[str, ...] = ()
        self.gold(MARKER)

    def gold(self, marker: str) -> None:
        """Write the questions with this marker in their gold, and training questions that give two of them away."""
        count, city = f"SELECT COUNT(*) AS {marker} FROM museum", f"SELECT city AS {marker} FROM museum"
        lyon = "How many museums of Lyon are there?"
        self.write("dev.json", [entry(1, lyon, count), entry(2, "Which cities are there?", city)])
        further = entry(102, "How many museums has Ghent?", f"SELECT COUNT(*) AS {TRAINING} FROM museum")
        self.write("train.json", [entry(100, lyon, count), entry(101, "Which towns?", city), further])

    def answer_key(self, marker: str) -> None:
        """Correct both golds by SQL with this marker, and let a training question give one of them away."""
        sqls = {1: f"SELECT COUNT(name) AS {marker} FROM museum", 2: f"SELECT name AS {marker} FROM museum"}
        entries = [
            {"question_id": number, "action": action, "sql": sqls[number], "reason": "r", "source": "s"}
            for number, action in ((1, "replace"), (2, "add"))
        ]
        self.write("corrections.json", {"corrections": entries})
        training = json.loads((self.folder / "train.json").read_text(encoding="utf-8"))
        self.write("train.json", [*training, entry(103, "Which museum names?", sqls[2])])
        self.keys = (str(self.folder / "corrections.json"),)

    def write(self, name: str, content: Any) -> None:
        (self.folder / name).write_text(json.dumps(content), encoding="utf-8")

    def load(self, home: Home) -> Benchmark:
        settings = BenchmarkSettings.model_validate({**BIRD, "answer_keys": self.keys})
        return load_benchmark(settings, data=self.data, home=home.path, conf=find_conf())


def files_in(*homes: Home) -> list[Path]:
    return [path for home in homes for path in home.path.rglob("*") if path.is_file()]


def with_the_marker(files: Sequence[Path]) -> list[Path]:
    return [path for path in files if MARKER.encode() in path.read_bytes() or MARKER in str(path)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "data")


@pytest.fixture
def sql_server(fake_openai: FakeOpenAI) -> Iterator[FakeOpenAI]:
    """A model whose SQL always needs correction, so that every stage runs."""

    def answer(body: Body) -> str:
        return json.dumps({
            "tables": ["museum"], "columns": ["museum.city"], "sql_keywords": ["COUNT"], "conditions": ["of Lyon"],
            "sql": "SELECT city FROM museum WHERE id > 9",
        })  # fmt: skip

    fake_openai.answer = answer
    yield fake_openai


RSL_SQL = "rsl-sql", "pipeline.correction.rounds=1", "pipeline.selection.shortcut=none"
DAC = (
    "dac", "pipeline.dac.second_generation=true", "pipeline.dac.consistency=3", "pipeline.dac.correction_shots=2",
    "pipeline.dac.feedback=strict",
)  # fmt: skip


async def evaluated(
    files: Files, home: Home, server: FakeOpenAI, pipeline: Sequence[str] = RSL_SQL
) -> tuple[list[Outcome], int]:
    """Ask all questions as an evaluation does; return their outcomes and how many tasks that took."""
    benchmark = files.load(home)
    settings = EvaluationSettings(
        benchmark=benchmark.settings,
        backbone=fake_settings(server),
        pipeline=load_pipeline_settings(find_conf(), pipeline[0], pipeline[1:]),
        data=str(files.data),
        home=str(home.path),
    )
    demonstrations = DemonstrationSearch(benchmark, settings, Progress()).choose(benchmark.questions)
    databases: dict[str, Database] = {"museum": open_database(files.database, "museum")}

    async def work() -> tuple[list[Outcome], int]:
        results = open_results(home)
        with open_reply_cache(home.replies) as cache:
            async with (
                SqlWorkers(1) as workers,
                open_backbone(settings.backbone, RunResources(cache)) as backbone,
            ):
                tools, inputs = (
                    Tools(MeteredBackbone(backbone), workers),
                    QuestionInputs(databases, demonstrations),
                )
                runner = QuestionRunner(settings, inputs, tools, results, TaskRuns(results))
                question_runs = [runner.question_run(question) for question in benchmark.questions]
                outcomes = [await runner.run(question_run) for question_run in question_runs]
                return outcomes, sum(stages_run(question_run) for question_run in question_runs)

    return await in_flow(work)


async def test_gold_is_in_nothing_that_is_sent_or_kept(
    files: Files, sql_server: FakeOpenAI, prefect_home: Home, prefect_api: Served
) -> None:
    outcomes, executed = await evaluated(files, prefect_home, sql_server)
    assert [outcome.failure for outcome in outcomes] == [None, None]
    assert executed == 9 + 8  # the backward link is the same for both: same SQL, same schema
    sent = [json.dumps([received.body, received.headers]) for received in sql_server.requests]
    assert len(sent) == 2 * 8
    assert not [text for text in sent if MARKER in text]
    assert any(TRAINING in text for text in sent), "a marker would be found if it were there"
    with open_reply_cache(prefect_home.replies) as cache:  # compressed where it lies
        exported = [json.dumps(asdict(entry)) for entry in cache.entries()]
    assert len(exported) == len(sent) and not [text for text in exported if MARKER in text]
    kept = files_in(prefect_home, prefect_api.home)
    stages = {key.partition("/")[0] for key in kept_results(prefect_home)}
    assert stages >= {"forward_link", "self_correction"}
    assert {path.name for path in kept} >= {"stages.sqlite", "replies.sqlite"}
    assert with_the_marker(kept) == []


async def test_gold_is_in_no_generation_vote_demonstration_or_correction_of_dac(
    files: Files, sql_server: FakeOpenAI, prefect_home: Home, prefect_api: Served
) -> None:
    answers = {
        "sql": "SELECT city FROM museum",
        "alignment": [{"token": "Lyon", "schema": "museum.name", "type": "val"}],
    }
    sql_server.answer = lambda body: json.dumps(answers)
    outcomes, _ = await evaluated(files, prefect_home, sql_server, DAC)
    assert [outcome.failure for outcome in outcomes] == [None, None]
    stages = {record.stage for outcome in outcomes for record in outcome.stages}
    assert stages >= {"initial_sql", "consistent_sql", "entity_linking", "skeleton_parsing", "dac_correction"}
    assert any(record.label == "initial_sql 6" for outcome in outcomes for record in outcome.stages)
    sent = [json.dumps([received.body, received.headers]) for received in sql_server.requests]
    assert not [text for text in sent if MARKER in text]

    assert sum(TRAINING in text for text in sent) >= 10, "every prompt of DAC shows demonstrations"
    assert with_the_marker(files_in(prefect_home, prefect_api.home)) == []


@pytest.mark.parametrize("change", [
    lambda files: files.gold("another_gold"),
    lambda files: files.answer_key(MARKER),  # its new training question is a corrected gold, and is not shown
])  # fmt: skip
async def test_other_and_corrected_golds_are_in_nothing_that_is_kept_and_change_no_key(
    files: Files,
    sql_server: FakeOpenAI,
    prefect_home: Home,
    prefect_api: Served,
    change: Callable[[Files], None],
) -> None:
    first, executed = await evaluated(files, prefect_home, sql_server)
    asked = len(sql_server.requests)
    change(files)
    second, again = await evaluated(files, prefect_home, sql_server)
    assert executed > 0 and again == 0
    assert len(sql_server.requests) == asked
    assert [outcome.sql for outcome in first] == [outcome.sql for outcome in second]
    assert all(record.restored for outcome in second for record in outcome.stages)
    assert with_the_marker(files_in(prefect_home, prefect_api.home)) == []
