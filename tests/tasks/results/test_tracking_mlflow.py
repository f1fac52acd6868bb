"""One evaluation as one MLflow run, read back through MLflow's own client; settings flat, short, without secrets."""

import datetime
import json
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from tasks.core.errors import ConfigurationError
from tasks.pages.first_screen import run_description
from tasks.results.build_record import describe, new_run_id, record_of
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.store import Store, find_store
from tasks.results.mlflow.tracker import Tracker, log_night
from tasks.results.parameters import MAX_VALUE, flatten, redact
from tasks.results.run_record import Tracked
from tasks.settings.home import Home
from tests.tasks.results.samples import LINKS, STAGES, home_of, make_record, make_rows, make_run, record_with

CLOSED = Store("http://127.0.0.1:9")
"""Nobody answers on the discard port."""


def evaluate(store: Store, questions: int = 30, **changes: object) -> Tracked:
    tracker = Tracker(home_of(store), store)
    run = make_run(**changes)
    tracker.start(run)
    completion = Completion(seconds=12.5, describe=run_description)
    tracked = tracker.finish(record_of(run, make_rows(questions), links=LINKS), completion).mlflow
    assert tracked.problem == ""
    return tracked


def started(store: Store) -> Tracker:
    tracker = Tracker(home_of(store), store)
    tracker.start(make_run())
    return tracker


@pytest.fixture
def client(store: Store) -> MlflowClient:
    return store.client()


@pytest.fixture(scope="module")
def finished(read_only_store: Store) -> Tracked:
    """A run of 30 questions that is only looked at."""
    return evaluate(read_only_store)


@pytest.fixture(scope="module")
def reader(read_only_store: Store) -> MlflowClient:
    return read_only_store.client()


def artifact(client: MlflowClient, tracked: Tracked, path: str) -> bytes:
    return Path(client.download_artifacts(tracked.run_id, path)).read_bytes()


def test_a_run_is_visible_from_its_first_minute(store: Store, client: MlflowClient) -> None:
    tracked = Tracker(home_of(store), store).start(make_run(user="ada"))
    run = client.get_run(tracked.run_id)
    assert run.info.status == "RUNNING"
    assert run.info.run_name == "weak-1 | rsl-sql"
    assert client.get_experiment(run.info.experiment_id).name == "crosscheck/bird-dev"
    assert run.data.params["pipeline.selection.enabled"] == "true"
    assert run.data.params["Backbone"] == "weak-1" and "backbone.name" not in run.data.params, "a fact once"
    assert run.data.tags["status"] == "running"
    assert run.data.tags["mlflow.user"] == "ada"
    assert run.info.start_time == 1795226400000


def test_a_finished_run_has_its_scores_and_where_they_come_from(
    finished: Tracked, reader: MlflowClient
) -> None:
    run, record = reader.get_run(finished.run_id), make_record(30)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["ex"] == pytest.approx(record.score.correct / record.score.total, abs=1e-6)
    assert (run.data.metrics["questions/correct"], run.data.metrics["questions/total"]) == (
        record.score.correct,
        30,
    )
    assert run.data.metrics["stage_ex/4_self_correction"] == run.data.metrics["ex"]
    stages = [name for name in run.data.metrics if name.startswith("stage_ex/")]
    assert stages == [f"stage_ex/{name}" for name in STAGES]
    assert run.data.metrics["usage/seconds"] == 12.5
    assert "usage/cost_usd" not in run.data.metrics
    assert run.data.tags["benchmark_revision"] == "20240627"
    assert run.data.tags["question_sha256"] == "a1" * 32
    assert run.data.tags["sweep"] == "nightly"
    assert "execution accuracy **" in run.data.tags["mlflow.note.content"]
    assert "mlflow.parentRunId" not in run.data.tags


def test_the_questions_are_the_runs_dataset_and_artifacts_are_complete(
    finished: Tracked, reader: MlflowClient
) -> None:
    (given,) = reader.get_run(finished.run_id).inputs.dataset_inputs
    assert (given.dataset.name, given.dataset.digest) == ("bird-dev", "a1a1a1a1a1a1")
    assert json.loads(given.dataset.source)["tags"]["sha256"] == "a1" * 32
    assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "evaluation")]
    assert yaml.safe_load(artifact(reader, finished, "config.yaml")) == make_run().settings
    facts = json.loads(artifact(reader, finished, "summary.json"))
    assert (facts["mlflow"]["run_id"], facts["seconds"]) == (finished.run_id, 12.5)
    assert "the home/mlartifacts" in reader.download_artifacts(str(finished.run_id), "")


def test_predictions_are_one_table_with_the_same_columns_first_in_every_run(
    store: Store, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(store)
    tracked = evaluate(store, pipeline="few-shot")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)  # load_table forgets its own client's store
    table = client.load_table(tracked.experiment_id, "predictions.json", extra_columns=["run_id"])
    assert list(table.columns)[:15] == [
        "asked", "answer", "question_id", "database", "difficulty", "question", "evidence", "predicted_sql", "correct",
        "status", "error", "attempts", "ex_bird", "ex_spider", "ex_strict",
    ]  # fmt: skip
    assert list(table.columns)[15:17] == ["1_preliminary_sql/sql", "1_preliminary_sql/correct"]
    assert list(table.columns)[-2:] == ["gold_sql", "run_id"]
    assert len(table) == 60
    mine = table[table["run_id"] == tracked.run_id].reset_index(drop=True)
    rows = make_rows(30)
    assert list(mine["predicted_sql"].fillna("")) == [row.outcome.sql or "" for row in rows]
    assert list(mine["correct"]) == [row.final.correct["bird"] for row in rows]
    assert mine["asked"][1] == "1 · How many heroes have the power number 1?"
    assert mine["answer"][0] == f"✗ (error) {rows[0].outcome.sql}"
    assert mine["answer"][1] == f"✓ {rows[1].outcome.sql}"
    assert mine["answer"][7] == f"✗ {rows[7].outcome.sql}"
    assert mine["answer"][10] == "– backbone_error"
    assert mine["status"][10] == "backbone_error"
    assert mine["error"][10] == "The backbone did not answer in time."


def test_a_benchmark_has_one_experiment_that_shows_ex_first(store: Store, client: MlflowClient) -> None:
    first, second = evaluate(store), evaluate(store, backbone="gpt-4o")
    assert first.experiment_id == second.experiment_id
    assert evaluate(store, benchmark="spider-dev").experiment_id != first.experiment_id
    tags = client.get_experiment(first.experiment_id).tags
    view = json.loads(tags["mlflow.sharedViewState.crosscheck"])
    assert json.loads(view["state"])["selectedColumns"][:2] == ["tags.`score`", "tags.`vs_best`"]
    assert tags["mlflow.experiment.primaryMetric.name"] == "ex"
    best = client.search_runs([first.experiment_id], order_by=["metrics.ex DESC"])
    assert len(best) == 2


def test_the_runs_of_nights_have_a_view_of_their_own_once_there_is_one(
    store: Store, client: MlflowClient
) -> None:
    plain = evaluate(store, tags={})
    name = "mlflow.sharedViewState.nights"
    assert name not in client.get_experiment(str(plain.experiment_id)).tags
    night = evaluate(store, tags={"night": "2026-11-21T00:30Z"})
    view = json.loads(client.get_experiment(str(night.experiment_id)).tags[name])
    state = json.loads(view["state"])
    assert (view["name"], state["orderByKey"], "tags.`verdict`" in state["selectedColumns"]) == (
        "Nights", "attributes.start_time", True,
    )  # fmt: skip
    (found,) = client.search_runs([str(night.experiment_id)], state["searchFilter"])
    assert found.info.run_id == night.run_id


def test_an_interrupted_run_says_why(store: Store, client: MlflowClient) -> None:
    tracker = started(store)
    tracked = tracker.abandon("The user stopped it.", "interrupted")
    run = client.get_run(tracked.run_id)
    assert run.info.status == "KILLED"
    assert run.data.tags["status"] == "interrupted"
    assert run.data.tags["mlflow.note.content"] == "Interrupted: The user stopped it."


def test_a_run_without_questions_is_logged_too(store: Store, client: MlflowClient) -> None:
    tracker = started(store)
    tracked = tracker.finish(record_with(())).mlflow
    assert tracked.problem == ""
    assert "ex" not in client.get_run(tracked.run_id).data.metrics


def test_a_name_that_mlflow_would_refuse_does_not_lose_the_run(store: Store, client: MlflowClient) -> None:
    odd = make_run(settings={"pipeline": {"a (b)": "x" * 9000, "c": "\N{SNOWMAN}", "half": "\ud83d"}})
    tracker = Tracker(home_of(store), store)
    tracker.start(odd)
    tracked = tracker.finish(record_of(odd, make_rows(3))).mlflow
    assert tracked.problem == ""
    assert client.get_run(tracked.run_id).data.params["pipeline.c"] == "\N{SNOWMAN}"


def test_a_deleted_experiment_is_named_before_the_first_call(store: Store, client: MlflowClient) -> None:
    tracked = evaluate(store)
    client.delete_experiment(tracked.experiment_id)
    with pytest.raises(ConfigurationError, match=f"restore --experiment-id {tracked.experiment_id}"):
        Tracker(home_of(store), store).start(make_run())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.usefixtures("impatient")
def test_runs_of_nights_have_dated_names_a_verdict_and_a_series_over_the_nights(
    store: Store, client: MlflowClient
) -> None:
    tracker = Tracker(home_of(store), store)
    run = make_run(tags={"night": "2026-11-21T00:30Z"})
    tracker.start(run)
    record = tracker.finish(record_of(run, make_rows(30)), Completion(seconds=12.5))
    nights = [datetime.datetime(2026, 11, day, tzinfo=datetime.UTC) for day in (20, 21)]
    scores = list(zip(nights, (0.5, 0.6), strict=True))
    assert log_night(store, record, "no worse", scores) == ""
    run = client.get_run(record.mlflow_run_id)
    assert run.info.run_name == "2026-11-21 00:30 weak-1 | rsl-sql"
    assert run.data.tags["verdict"] == "no worse"
    share = f"{100 * record.correct / record.total:.1f} %"
    assert (
        run.data.tags["mlflow.source.name"] == f"{share}, unknown, {record.unanswered} unanswered, no worse"
    )
    series = client.get_metric_history(record.mlflow_run_id, "ex_by_night")
    assert [(each.timestamp, each.value, each.step) for each in series] == [
        (int(night.timestamp() * 1000), score, place) for place, (night, score) in enumerate(scores, 1)
    ]


def test_a_lost_server_does_not_lose_the_night(store: Store, client: MlflowClient) -> None:
    home = home_of(store)
    tracker = Tracker(home, CLOSED)
    assert tracker.start(make_run()).run_id is None
    tracked = tracker.finish(make_record(30), Completion(seconds=12.5)).mlflow
    assert "no server answers at 127.0.0.1:9" in tracked.problem
    assert make_run().run_id in tracked.problem

    later = Tracker(home, store)
    run = make_run(run_id="later")
    later.start(run)
    assert later.finish(record_of(run, make_rows(5))).mlflow.problem == ""
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    (run,) = [each for each in runs if each.data.tags["crosscheck_run_id"] == make_run().run_id]
    assert len(runs) == 2 and run.info.status == "FINISHED"
    assert run.data.metrics["ex"] == pytest.approx(make_record(30).score.ex, abs=1e-6)
    assert run.data.params["backbone.model"] == "weak-1"
    logged = replace(tracked, run_id=run.info.run_id)
    assert json.loads(artifact(client, logged, "summary.json"))["run_id"] == make_run().run_id
    assert not (home.path / "unlogged").exists()


@pytest.mark.usefixtures("impatient")
def test_abandoning_without_a_server_raises_nothing(store: Store) -> None:
    tracker = Tracker(home_of(store), CLOSED)
    tracker.start(make_run())
    assert tracker.abandon("It failed.").run_id is None


def test_logging_twice_does_not_double_the_table(store: Store, client: MlflowClient) -> None:
    tracker = started(store)
    for _ in range(2):
        tracked = tracker.finish(make_record(30)).mlflow
    assert len(json.loads(artifact(client, tracked, "predictions.json"))["data"]) == 30


def test_the_store_of_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_store(Home(tmp_path)).artifacts == tmp_path / "mlartifacts"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    assert find_store(Home(tmp_path)) == Store("http://mlflow.example:5000", None)


def test_a_store_that_another_process_locks_for_a_while_gets_the_run_all_the_same(
    store: Store, client: MlflowClient
) -> None:
    tracker = started(store)
    with closing(
        sqlite3.connect(str(store.sqlite_file), isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN EXCLUSIVE")
        unlocking = threading.Timer(
            8.0, other.execute, ["ROLLBACK"]
        )  # SQLAlchemy itself waits for five seconds
        unlocking.start()
        tracked = tracker.finish(make_record(4), Completion(seconds=1.0)).mlflow
        unlocking.join()
    assert tracked.problem == "" and tracked.run_id is not None
    assert client.get_run(tracked.run_id).info.status == "FINISHED"


def test_settings_are_written_as_the_command_line_sets_them_and_cut_where_too_long() -> None:
    assert flatten({"a": {"b": [1, "x"], "c": {}, "d": None, "e": True, "f": 5, "g": "both"}}) == {
        "a.b": '[1, "x"]', "a.c": "{}", "a.d": "null", "a.e": "true", "a.f": "5", "a.g": "both",
    }  # fmt: skip
    long = flatten({"benchmark": {"quarantine": ["é" * 20] * 1000}})["benchmark.quarantine"]
    assert len(long) == MAX_VALUE
    assert "24000 characters, sha256 " in long
    assert flatten({"a": "x" * MAX_VALUE})["a"] == "x" * MAX_VALUE


@pytest.mark.parametrize("settings", [
    {"base_url": "https://me:hunter22@host/v1"},
    {"extra_body": {"Authorization": "Bearer hunter22"}},
    {"extra_body": {"nested": [{"api-key": "hunter22"}]}},
    {"extra_body": {"user": "id of hunter22"}},
])  # fmt: skip
def test_secrets_are_hidden(settings: dict[str, object]) -> None:
    assert "hunter22" not in str(redact(settings, "hunter22"))
    assert "***" in str(redact(settings, "hunter22"))


def test_what_only_sounds_like_a_secret_is_kept() -> None:
    harmless = {
        "api_key_env": "OPENAI_API_KEY",
        "max_tokens": 500,
        "max_tokens_field": "max_tokens",
        "token": None,
    }
    assert redact(harmless, "") == harmless


def test_a_placeholder_for_a_key_is_no_secret() -> None:
    settings = {"name": "ollama", "base_url": "http://ollama:11434/v1"}
    assert redact(settings, "ollama") == settings


def test_the_key_itself_never_reaches_the_settings(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    questions = tmp_path / "dev.json"
    questions.write_text("[]")
    run = describe(
        {
            "benchmark": {"name": "b", "rule": "bird", "revision": "1"},
            "backbone": {
                "name": "m",
                "api_key_env": "SOME_API_KEY",
                "extra_body": {"note": "key sk-very-secret"},
            },
            "pipeline": {"name": "p"},
        },
        [questions],
        engine="",
    )
    assert "sk-very-secret" not in str(run)
    assert run.settings["backbone"]["api_key_env"] == "SOME_API_KEY"
    assert run.question_sha256 == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    assert run.name == "m | p"


def test_run_ids_sort_by_time_and_differ() -> None:
    first, second = new_run_id(), new_run_id()
    assert first != second
    assert first[:15] <= second[:15]
