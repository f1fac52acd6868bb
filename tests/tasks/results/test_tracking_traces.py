"""Questions as MLflow traces, in a real SQLite store, read back through MLflow's own client."""

import datetime
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Trace

from tasks.backbone.protocol import Message
from tasks.backbone.recordings import Exchange
from tasks.backbone.replies.thoughts import with_thoughts
from tasks.core.outcome import Failure, StageRecord
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.store import Store
from tasks.results.mlflow.traces import NOT_KEPT, TraceChoice, choose, sample_of
from tasks.results.mlflow.tracker import Tracker
from tasks.results.run_record import RunRecord
from tasks.scoring.scores import Measurement, QuestionScore
from tasks.settings.home import Home
from tests.support.postgres import new_database
from tests.tasks.results.samples import home_of, make_record, make_rows, make_run, record_with

pytestmark = pytest.mark.slow

CLOSED = Store("http://127.0.0.1:9")
SECRET = "sk-very-secret"


def said(question: str, key: str) -> Exchange | None:
    """Every call but those of question 2 has its text."""
    if question == "2":
        return None
    messages = (Message("system", f"Schema, and {SECRET}"), Message("user", f"question {question}"))
    return Exchange(messages, with_thoughts("Which table?", '{"sql": "SELECT \ud83d 1"}'))


def trace(store: Store, record: RunRecord, choice: TraceChoice) -> str:
    """Write the traces of a run and return MLflow's id of it."""
    tracker = Tracker(home_of(store), store)
    tracked = tracker.start(make_run())
    assert tracker.trace(choice, said) == ""
    tracker.finish(record, Completion(remarks=(str(choice),), genai_evaluation=bool(choice.brief)))
    return tracked.run_id


@pytest.fixture(scope="module")
def whole(read_only_store: Store, record: RunRecord) -> tuple[str, dict[str, Trace]]:
    """MLflow's id of a run of which every question is traced, and its traces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEAK_API_KEY", SECRET)
        run_id = trace(read_only_store, record, choose(record, failed=100, sample=30))
    return run_id, traces_of(read_only_store.client(), run_id)


def traces_of(client: MlflowClient, run_id: str) -> dict[str, Trace]:
    experiment = client.get_run(run_id).info.experiment_id
    found = client.search_traces(locations=[experiment], run_id=run_id, max_results=500)
    return {one.info.tags["question_id"]: one for one in found}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WEAK_API_KEY", SECRET)
    yield


@pytest.fixture(scope="module")
def record() -> RunRecord:
    """30 questions: 10 and 21 have no answer, some have SQL that fails, the others are right or wrong."""
    rows = list(make_rows(30))
    stage = StageRecord("preliminary_sql", "preliminary_sql", None, False, error="no reply in time")
    failure = Failure("backbone_error", "preliminary_sql", f"no reply in time for {SECRET}", retryable=True)
    outcome = replace(rows[10].outcome, stages=(*rows[1].outcome.stages[:1], stage), failure=failure)
    rows[10] = replace(rows[10], outcome=outcome)
    return record_with(tuple(rows))


def failed(row: QuestionScore) -> bool:
    return row.outcome.sql is None or row.final.status != "ok" or not row.final.correct["bird"]


def test_every_failed_question_and_the_same_sample_in_every_run_are_chosen(record: RunRecord) -> None:
    choice = choose(record, failed=100, sample=4)
    ids = {row.question.id for row in choice.whole}
    failures = {row.question.id for row in record.rows if failed(row)}
    sample = sample_of([row.question.id for row in record.rows], 4)
    assert ids == failures | sample
    assert len(sample) == 4 and len(failures) > 2
    assert choice.brief == ()
    other = make_record(30, shift=3)
    assert sample <= {row.question.id for row in choose(other, failed=0, sample=4).whole}
    assert choice.is_sample
    assert str(choice).startswith(f"traces: {len(ids)} of 30 scored questions with their stages; shares in ")


def test_failed_questions_come_before_wrong_ones_and_small_benchmarks_are_traced_whole(
    record: RunRecord,
) -> None:
    without = [row.question.id for row in record.rows if row.outcome.sql is None or row.final.status != "ok"]
    few = choose(record, failed=len(without), sample=0)
    assert {row.question.id for row in few.whole} == set(without)
    whole = choose(record, failed=0, sample=200)
    assert not whole.is_sample and str(whole) == "traces: 30 of 30 scored questions with their stages"


def test_flipped_questions_are_traced_after_failed_and_before_wrong_ones(record: RunRecord) -> None:
    right = [row.question.id for row in record.rows if not failed(row)]
    without = [row.question.id for row in record.rows if row.outcome.sql is None or row.final.status != "ok"]
    choice = choose(record, failed=len(without) + 1, sample=0, flipped={right[0]})
    assert {row.question.id for row in choice.whole} == {*without, right[0]}
    assert choice.brief == ()


def test_unchanged_verdicts_are_traced_without_their_stages_right_or_wrong(
    store: Store, record: RunRecord
) -> None:
    wrong = [row.question.id for row in record.rows if failed(row)][:2]
    right = next(row.question.id for row in record.rows if not failed(row))
    choice = choose(record, failed=100, sample=30, unchanged={*wrong, right})
    assert {row.question.id for row in choice.brief} == {*wrong, right} == set(choice.unchanged)
    assert str(choice) == (
        "traces: 27 of 30 scored questions with their stages, 3 others without their stages"
    )
    partly = choose(record, failed=100, sample=4, unchanged={*wrong})
    assert partly.is_sample and "describe only these questions" in str(partly)
    found = traces_of(store.client(), trace(store, record, choice))
    assert len(found) == 30 and len(found[right].data.spans) == 1
    assert found[right].info.tags["unchanged"] == "true"
    command = f"crosscheck show {make_run().run_id} {right} --prompts"
    assert found[right].data.spans[0].get_attribute("stages") == command
    assert [each.name for each in found[wrong[0]].info.assessments].count("correct") == 1


def test_no_more_failed_questions_are_traced_than_asked_for_and_none_without_a_database(
    record: RunRecord,
) -> None:
    choice = choose(record, failed=2, sample=0)
    assert len(choice.whole) == 2
    none = choose(record, failed=0, sample=0)
    assert (none.whole, none.brief) == ((), ())
    row = replace(record.rows[10], executable=False)
    choice = choose(record_with((row,)), failed=10, sample=10, every=True)
    assert (choice.whole, choice.brief) == ((), ())


def test_a_trace_tells_a_questions_way_with_prompts_replies_and_verdict(
    whole: tuple[str, dict[str, Trace]], record: RunRecord
) -> None:
    run_id, traces = whole
    assert len(traces) == 30
    right = next(row for row in record.rows if row.final.correct["bird"] and row.question.id != "2")
    found = traces[right.question.id]
    root, *inner = found.data.spans
    assert root.name == f"question {right.question.id}"
    assert root.inputs["question"] == right.question.text
    answer = {"sql": right.outcome.sql, "gold_sql": right.gold_sql, "correct": True, "status": "ok"}
    assert root.outputs == answer
    assert found.info.request_preview == f"{right.question.id} · {right.question.text}"
    assert found.info.response_preview == right.outcome.sql
    assert found.info.trace_metadata["mlflow.sourceRun"] == run_id
    assert (found.info.state, found.info.tags["correct"]) == ("OK", "true")
    labels = [record.label for record in right.outcome.stages]
    assert [span.name for span in inner if span.parent_id == root.span_id] == labels
    calls = [span for span in inner if span.span_type == "CHAT_MODEL"]
    assert len(calls) == len(labels)
    assert calls[0].inputs["messages"][1] == {"role": "user", "content": f"question {right.question.id}"}
    message = calls[0].outputs["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == (
        '{"sql": "SELECT \ufffd 1"}',
        "Which table?",
    )
    assert calls[0].get_attribute("input_tokens") == right.outcome.stages[0].calls[0].usage.input
    started = int(make_run().started.timestamp() * 1e9)
    assert root.start_time_ns == calls[0].start_time_ns == started
    assert found.info.request_time == started // 1_000_000
    assert found.info.execution_duration == round(1000 * sum(r.seconds for r in right.outcome.stages))


def test_the_verdict_and_the_gold_are_assessments_of_the_run(
    whole: tuple[str, dict[str, Trace]], record: RunRecord
) -> None:
    run_id, traces = whole
    for name, found in traces.items():
        row = record.rows[int(name)]
        verdict, gold = sorted(found.info.assessments, key=lambda one: one.name)
        assert (verdict.name, verdict.feedback.value) == ("correct", row.final.correct["bird"])
        assert (gold.name, gold.expectation.value) == ("expected_response", row.gold_sql)
        assert verdict.metadata["mlflow.assessment.sourceRunId"] == run_id
        assert "crosscheck, rule bird" in verdict.source.source_id


def test_causes_and_flips_are_in_the_trace(store: Store, record: RunRecord) -> None:
    wrong = next(row for row in record.rows if row.final.status == "ok" and not row.final.correct["bird"])
    name = wrong.question.id
    measured = Measurement(by_question={name: "wrong_value, wrong_table"})
    caused = record.model_copy(update={"measurements": {"errors": measured}})
    run_id = trace(store, caused, choose(caused, failed=100, sample=0, flipped={name}))
    found = traces_of(store.client(), run_id)[name].info
    assert found.tags["flipped"] == "broken"
    given = {each.name: each for each in found.assessments}
    assert len(given) == len(found.assessments) == 3
    assert given["causes"].feedback.value == "wrong_value, wrong_table"


def test_only_tokens_that_this_run_paid_for_are_added_up(
    whole: tuple[str, dict[str, Trace]], record: RunRecord
) -> None:
    for name, found in whole[1].items():
        records = record.rows[int(name)].outcome.stages
        paid = [call for record in records if not record.restored for call in record.calls if not call.cached]
        counted = found.info.token_usage
        assert (counted["input_tokens"] if counted else 0) == sum(call.usage.input or 0 for call in paid)
        shown = [span.get_attribute("paid") for span in found.data.spans if span.span_type == "CHAT_MODEL"]
        assert shown.count(True) == len(paid)


def test_a_failed_question_says_where_and_why_and_no_secret_is_written(
    read_only_store: Store, whole: tuple[str, dict[str, Trace]]
) -> None:
    found = whole[1]["10"]
    assert (found.info.state, found.info.tags["failure"]) == ("ERROR", "backbone_error")
    broken = next(span for span in found.data.spans if span.name == "preliminary_sql" and span.events)
    assert broken.status.status_code == "ERROR"
    assert broken.events[0].attributes["exception.message"] == "no reply in time"
    assert "no reply in time for ***" in str(found.info.response_preview)
    files = read_only_store.sqlite_file.parent.rglob("mlflow.db*")
    assert SECRET.encode() not in b"".join(file.read_bytes() for file in files)


def test_a_text_that_nobody_kept_is_not_made_up(whole: tuple[str, dict[str, Trace]]) -> None:
    calls = [span for span in whole[1]["2"].data.spans if span.span_type == "CHAT_MODEL"]
    assert calls
    assert {span.inputs for span in calls} == {span.outputs for span in calls} == {NOT_KEPT}


def test_no_text_keeps_the_traces_of_a_run_out_of_postgresql(
    record: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where MLflow puts artifacts
    text = "SELECT 'a\x00b \ud800'"
    row = record.rows[1]
    odd = replace(
        row, outcome=replace(row.outcome, sql=text), final=replace(row.final, error=text), gold_sql=text
    )
    changed = record_with((record.rows[0], odd))
    with new_database() as url:
        store = Store(url.replace("postgresql://", "postgresql+psycopg://"))
        tracker = Tracker(Home(tmp_path), store)
        run_id = tracker.start(make_run()).run_id
        assert tracker.trace(choose(changed, failed=1, sample=2), said) == ""
        assert tracker.finish(changed, Completion(remarks=(text,))).mlflow.problem == ""
        preview = traces_of(store.client(), run_id)["1"].info.response_preview
        assert preview == "SELECT 'a\ufffdb \ufffd'"


def test_an_evaluation_run_has_every_scored_question_and_stays_flat(store: Store, record: RunRecord) -> None:
    choice = choose(record, failed=0, sample=3, every=True)
    run_id = trace(store, record, choice)
    client = store.client()
    run = client.get_run(run_id)
    assert run.data.tags["mlflow.runType"] == "genai_evaluate"
    assert "mlflow.parentRunId" not in run.data.tags
    assert "27 others without their stages" in run.data.tags["mlflow.note.content"]
    assert len(client.search_runs([run.info.experiment_id])) == 1
    traces = traces_of(client, run_id)
    assert len(traces) == 30
    assert sorted(len(one.data.spans) for one in traces.values())[:27] == [1] * 27
    assert all(len(one.info.assessments) == 2 for one in traces.values())


def test_writing_traces_twice_does_not_double_them(store: Store, record: RunRecord) -> None:
    choice = choose(record, failed=3, sample=3)
    tracker = Tracker(home_of(store), store)
    tracked = tracker.start(make_run(started=datetime.datetime(2026, 11, 21, 3, tzinfo=datetime.UTC)))
    assert tracker.trace(choice, said) == tracker.trace(choice, said) == ""
    traces = traces_of(store.client(), tracked.run_id)
    assert len(traces) == len(choice.whole)
    assert all(len(one.data.spans) > 1 for one in traces.values())


def test_traces_that_cannot_be_written_are_a_sentence_and_no_failure(
    store: Store, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    choice = choose(record, failed=3, sample=3)
    lost = Tracker(home_of(store), CLOSED)
    lost.start(make_run())
    assert lost.trace(choice, said) == "there is no MLflow run to link them with."

    def broken(question: str, key: str) -> Exchange | None:
        raise OSError("the disk is gone")

    tracker = Tracker(home_of(store), store)
    tracker.start(make_run())
    assert tracker.trace(choice, broken) == "the disk is gone."
