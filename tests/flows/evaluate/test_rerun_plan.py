"""Which questions a re-run asks again, under which settings, and what of their answers it keeps."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.evaluate.rerun import RerunPlan, check_data, plan_rerun, what_changed
from flows.evaluate.runner import RerunSpec
from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import ConfigurationError, CrosscheckError, DataError
from tasks.core.outcome import Failure
from tasks.core.records import Question
from tasks.database.database import digests_of
from tasks.results.build_record import describe, record_of
from tasks.results.run_record import KINDS, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.scores import QuestionScore, Verdict
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.evaluation import RerunSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings
from tasks.stages.question_run import QuestionRun
from tests.tasks.results.samples import make_rows, make_run

RIGHT, WRONG = {"bird": True}, {"bird": False}


def failed(kind: str, *, retryable: bool, executable: bool = True) -> dict[str, Any]:
    return {
        "failure": Failure(kind, "", "it failed", retryable),
        "final": Verdict(WRONG, "no_answer"),
        "executable": executable,
    }


CASES: dict[str, dict[str, Any]] = {
    "right": {"final": Verdict(RIGHT, "ok", row_count=3)},
    "wrong": {"final": Verdict(WRONG, "ok", row_count=3)},
    "empty": {"final": Verdict(WRONG, "ok", row_count=0)},
    "empty-right": {"final": Verdict(RIGHT, "ok", row_count=0)},
    "timeout": {"final": Verdict(WRONG, "timeout")},
    "rate-limited": failed("backbone_error", retryable=True),
    "refused": failed("backbone_error", retryable=False),
    "bug": failed("internal_error", retryable=False),
    "no-database": failed("missing_database", retryable=False, executable=False),
    "never-there": {"final": Verdict(RIGHT, "ok", row_count=3), "stages": ()},
}


def score(name: str, case: dict[str, Any]) -> QuestionScore:
    base = make_rows(1)[0]
    failure = case.get("failure")
    outcome = replace(
        base.outcome, question_id=name, failure=failure, sql=None if failure else "SELECT 1",
        attempts=case.get("attempts", 1), samples=case.get("samples", (0,)),
        stages=case.get("stages", base.outcome.stages),
    )  # fmt: skip
    return replace(
        base, question=Question(name, "?", "db"), outcome=outcome, final=case["final"],
        executable=case.get("executable", True),
    )  # fmt: skip


class Night:
    """A working folder with one finished run that has every case."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.warehouse = Warehouse(home / "warehouse.duckdb")
        file = home / "dev.json"
        file.write_text("[]", encoding="utf-8")
        settings = evaluation_settings(
            EvaluationChoice(benchmark="demo", backbone="ollama", pipeline="rsl-sql")
        )
        parts = {kind: getattr(settings, kind).model_dump(mode="json") for kind in KINDS}
        self.run = describe(parts, [file], engine="", questions_in_benchmark=200)
        self.finish(self.run, CASES)

    def finish(
        self, run: RunRecord, cases: dict[str, dict[str, Any]], rerun: dict[str, Any] | None = None
    ) -> None:
        rows = tuple(score(*case) for case in cases.items())
        self.warehouse.finish(record_of(run, rows, rerun=rerun))

    def other(self, run_id: str, **changes: Any) -> RunRecord:
        """Return the run under another id, with changes."""
        return self.run.model_copy(update={"run_id": run_id, **changes})

    def plan(self, run: str = "latest", **wanted: Any) -> RerunPlan:
        return plan_rerun(RerunSettings(run=run, data=".", home=str(self.home), **wanted))


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Night:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    return Night(tmp_path)


@pytest.mark.parametrize(("only", "meant"), [
    ("errors", {"rate-limited", "bug"}),
    ("wrong", {"wrong", "empty", "timeout"}),
    ("empty", {"empty", "empty-right"}),
    ("timeouts", {"timeout"}),
])  # fmt: skip
def test_only_means_what_it_says(night: Night, only: str, meant: set[str]) -> None:
    plan = night.plan(only=only)
    assert set(plan.again) == meant
    assert plan.tags["parent_run_id"] == night.run.run_id


def test_a_stage_alone_means_every_question_that_went_through_it_and_questions_take_the_place_of_only(
    night: Night,
) -> None:
    plan = night.plan(from_stage="augmented_sql")
    assert set(plan.again) == set(CASES) - {"no-database", "never-there"}
    assert plan.selection == plan.tags["rerun"] == "--from augmented_sql"
    assert set(night.plan(from_stage="augmented_sql", only="errors").again) == {"rate-limited", "bug"}
    assert set(night.plan(from_stage="augmented_sql", questions="right").again) == {"right"}
    assert set(night.plan(questions="right,no-database,refused").again) == {"right", "refused"}


def test_the_settings_are_the_parents_over_all_of_its_questions(night: Night) -> None:
    settings = night.plan().settings
    asked = evaluation_settings(EvaluationChoice(benchmark="demo", backbone="ollama", pipeline="rsl-sql"))
    for part in ("benchmark", "backbone", "pipeline"):
        assert getattr(settings, part) == getattr(asked, part)
    assert settings.questions == ",".join(CASES)
    assert night.plan(overrides=("backbone.concurrency=3",)).settings.backbone.concurrency == 3


@pytest.mark.parametrize("override", [
    "backbone.model=other", "backbone.temperature=1", "benchmark.timeout_s=99", "pipeline.prompt.sample_rows=0"
])  # fmt: skip
def test_what_changes_the_meaning_of_the_score_cannot_be_overridden(night: Night, override: str) -> None:
    with pytest.raises(CrosscheckError, match="evaluate again"):
        night.plan(overrides=(override,))


@pytest.mark.parametrize("override", [
    "backbone.timeout_s=2026-11-30", "backbone.retries=[2026-11-30T07:00:00]", "backbone.concurrency=!!set {a}",
    "backbone.api_key_env=!!binary aGVsbG8=",
])  # fmt: skip
def test_a_value_that_json_has_no_form_for_is_refused(night: Night, override: str) -> None:
    with pytest.raises(ConfigurationError, match=override.partition("=")[0]):
        night.plan(overrides=(override,))


def test_a_run_without_a_model_or_an_end_or_with_a_secret_that_was_not_stored_cannot_be_asked_again(
    night: Night,
) -> None:
    system = {
        "benchmark": {"name": "demo"},
        "backbone": {"kind": "predictions", "name": "x"},
        "pipeline": {"kind": "predictions"},
    }
    scored = night.other("29990101-000000-aaaaaa", settings=system)
    night.finish(scored, CASES)
    with pytest.raises(CrosscheckError, match="no model to ask"):
        night.plan(scored.run_id)
    uninstalled = {**night.run.settings, "backbone": {"kind": "constant", "name": "constant"}}
    of_a_package = night.other("29990101-000000-aaaaab", settings=uninstalled)
    night.finish(of_a_package, CASES)
    with pytest.raises(CrosscheckError, match='There is no backbone "constant"'):
        night.plan(of_a_package.run_id)
    running = night.other("29990101-000000-bbbbbb")
    night.warehouse.start(running)
    with pytest.raises(CrosscheckError, match="is running"):
        night.plan(running.run_id)
    backbone = {**night.run.settings["backbone"], "base_url": "http://***@h/v1"}
    hidden = night.other("29990101-000000-cccccc", settings={**night.run.settings, "backbone": backbone})
    night.finish(hidden, CASES)
    with pytest.raises(CrosscheckError, match="held a secret"):
        night.plan(hidden.run_id)


def test_every_fresh_sampling_is_another_one_but_an_interrupted_one_is_continued(night: Night) -> None:
    assert night.plan(fresh=True).attempt == 1
    begun = night.other("29990101-000000-dddddd", tags={"attempt": "1"})
    asked = {"bug": {**CASES["bug"], "samples": (1,)}}
    night.warehouse.start(begun)
    night.warehouse.append_questions(begun, [score("bug", asked["bug"])])
    night.warehouse.abandon(begun.run_id, "interrupted")
    assert night.plan(fresh=True).attempt == 1
    night.finish(begun, asked)
    # Of the first run as of the second: a sibling must not be served the replies of another.
    assert night.plan(night.run.run_id, fresh=True).attempt == 2
    assert night.plan(begun.run_id, fresh=True).attempt == 2


@pytest.mark.parametrize(
    ("facts", "wanted", "attempt"),
    [
        ({}, {}, 4),
        ({}, {"run": "29990101-000000-dddddd"}, 4),
        ({"no_new_answer": 0}, {}, 5),
        ({}, {"only": "empty"}, 5),
        ({}, {"from_stage": "augmented_sql"}, 5),
        ({"from": "augmented_sql"}, {"from_stage": "augmented_sql"}, 4),
        ({"parent": "another"}, {}, 5),
    ],
)
def test_a_fresh_sampling_that_lacks_answers_is_continued_by_the_same_selection_of_the_same_run(
    night: Night, facts: dict[str, Any], wanted: dict[str, Any], attempt: int
) -> None:
    merged = night.other("29990101-000000-dddddd", tags={"attempt": "4"})
    same = {"parent": night.run.run_id, "selection": "--only wrong", "from": None, "no_new_answer": 2}
    night.finish(merged, CASES, same | facts)
    assert night.plan(**{"run": night.run.run_id, "only": "wrong", "fresh": True} | wanted).attempt == attempt


@pytest.mark.parametrize(
    ("wanted", "again"),
    [
        ({}, RerunSpec(2, (0,))),
        ({"fresh": True}, RerunSpec(3)),
        ({"from_stage": "augmented_sql"}, RerunSpec(2, (2, 0), "augmented_sql", refresh=True)),
        ({"from_stage": "augmented_sql", "fresh": True}, RerunSpec(3, (2, 0), "augmented_sql")),
    ],
)
def test_what_is_kept_of_a_question_follows_from_its_samplings(
    night: Night, wanted: dict[str, Any], again: RerunSpec
) -> None:
    parent = night.other("29990101-000000-ffffff", tags={"attempt": "2"})
    night.finish(parent, {"bug": {**CASES["bug"], "samples": (0, 2)}})
    assert night.plan(parent.run_id, only="errors", **wanted).again == {"bug": again}


def test_a_trail_keeps_earlier_samplings_up_to_the_stage_that_is_dropped() -> None:
    question_run = QuestionRun(Question("1", "?", "db"), attempt=3, earlier=(2, 0), rerun_from_stage="second")
    seen = []
    for stage in ("first", "second", "first"):
        question_run.label(stage)
        seen.append((question_run.attempts, question_run.ignore_cache))
    assert seen == [((2, 0), False), ((3,), False), ((3,), False)]
    assert QuestionRun(Question("1", "?", "db"), attempt=2, earlier=(0,)).attempts == (2, 0)
    refreshed = QuestionRun(Question("1", "?", "db"), earlier=(0,), rerun_from_stage="first", refresh=True)
    refreshed.label("first")
    assert refreshed.ignore_cache


def test_a_database_that_changed_since_the_run_is_refused(built_demo: Path, tmp_path: Path) -> None:
    home = shutil.copytree(built_demo, tmp_path / "home")
    settings = load_benchmark_settings(find_conf(), "demo")
    benchmark = load_benchmark(settings, data=home, home=home, conf=find_conf())
    name = benchmark.questions[0].database_id

    def check() -> None:
        databases = {name: open_benchmark_database(benchmark, name, 0)}
        run = make_run(question_sha256=benchmark.digest, databases=before)
        check_data(run, benchmark, databases)

    before = digests_of({name: open_benchmark_database(benchmark, name, 0)})
    check()
    with closing(sqlite3.connect(benchmark.database_path(name))) as connection, connection:
        connection.execute("CREATE TABLE further (a INTEGER)")
    with pytest.raises(DataError, match=f'The database "{name}" has changed since run 20261121'):
        check()


def test_a_re_run_says_what_its_requests_are_made_of_that_changed() -> None:
    prompt, file = "prompts/forward_link.jinja", "shop/mine.py"
    parent = make_run(sources={prompt: "a", file: "a", "own-metrics": "1.0"})
    assert not list(what_changed(parent, parent))
    (told,) = what_changed(parent, parent.model_copy(update={"sources": {prompt: "b", "own-metrics": "1.1"}}))
    assert told.startswith(f"Since {parent.run_id} was made, {prompt}, own-metrics changed.")
    for release in ({"version": "0.2.0"}, {"git_commit": "0464afb-dirty"}):
        (told,) = what_changed(parent, parent.model_copy(update=release))
        assert told.startswith(f"Since {parent.run_id} was made, Crosscheck changed.")
    tags = {"generated_descriptions": "3 (ab)", "training_questions": "289 (cd)"}
    described, chosen = what_changed(parent.model_copy(update={"tags": tags}), parent)
    assert "(3 (ab)) than those of this run (none)" in described
    assert "from 289 (cd), those of this run from none." in chosen
