"""`crosscheck compare` and `crosscheck runs` as users meet them: the words, the object, the page, the refusals."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.results.build_record import record_of
from tasks.results.run_record import RunRecord, Tracked
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.command_line import ROOT, CommandLine
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import two_runs
from tests.tasks.results.samples import make_run

A, B = "20261121-020000-00000a", "20261121-020001-00000b"
MLFLOW = {A: "9c" * 16, B: "9d" * 16}


def keep(home: Home, runs: Sequence[RunRecord]) -> None:
    """Write runs as evaluations do."""
    warehouse = Warehouse(home.warehouse)
    for each in runs:
        mlflow_run = MLFLOW.get(each.run_id)
        facts = {"mlflow": Tracked("sqlite://", mlflow_run), "mlflow_run_id": mlflow_run}
        warehouse.finish(record_of(each, each.rows, each.status, **facts))


def later(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The same runs, of which the second was started a second after the first."""
    first, second = (each.model_copy(update={"question_sha256": "a1" * 32}) for each in runs)
    started = first.started.replace(second=1)
    return [first, second.model_copy(update={"started": started})]


def test_where_all_metrics_are_equal_there_is_no_table_of_them(home: Home) -> None:
    warehouse, nothing = Warehouse(home.warehouse), {"correct": 0, "total": 0, "value": None}
    for each in later(two_runs(0, 0, 6)):
        same = {"unanswered": ["1", "2"], "selection": {"chosen_right": nothing}}
        warehouse.finish(record_of(each, each.rows, each.status, metrics=same))
    told = run("compare", A, B).out
    assert "Metrics: 1 value equal in both" in told
    assert "chosen" not in told and "better" not in told


def test_the_object_and_the_page_have_every_flip_and_the_text_the_first_ten(
    home: Home, tmp_path: Path
) -> None:
    keep(home, later(two_runs(14, 2, 60)))
    ran = run("compare", A, B, "--json", "--html", str(tmp_path / "page.html"))
    found = ran.json
    assert list(found)[:7] == ["benchmark", "revision", "question_sha256", "rule", "a", "b", "result"]
    assert found["result"]["better"] == "B" and found["result"]["significant"] is True
    assert len(found["flips"]) == 16
    assert found["a"]["ex"] == {"correct": 24, "total": 60, "ex": 0.4} | {
        end: found["a"]["ex"][end] for end in ("low", "high")
    }
    assert "page.html" in ran.err
    assert (tmp_path / "page.html").read_text(encoding="utf-8").count('<li class="flip"') == 16
    short, everything = run("compare", A, B).out, run("compare", A, B, "--all").out
    assert "SELECT 9 FROM a" in short and "SELECT 10 FROM a" not in short
    assert "the first 10 of 16 flipped questions" in short
    for number in range(16):
        letter = "a" if number < 14 else "b"
        assert f"    SELECT {number} FROM {letter}\n" in everything
        assert f"    SELECT {number} -- gold\n" in everything
        assert f"What is {number}?" in everything


@pytest.mark.parametrize(("broken", "options", "code", "words"), [
    (2, (), 0, "Inside the noise"),
    (14, (), 0, "beats"),
    (2, ("--fail-if", "worse"), 0,
     "Gate passed: no loss is proven (2 answers differ; at least 6 must for p < 0.05)."),
    (14, ("--fail-if", "worse"), 1, "Gate failed: B is worse than A (exact McNemar test, level 0.05)."),
    (2, ("--fail-if", "worse", "--margin", "1"), 1, "Gate failed: B losing 1 point or more is not excluded, p = "),
    (2, ("--fail-if", "worse", "--margin", "20"), 0, "Gate passed: B losing 20 points or more is excluded, p = "),
    (14, ("--margin", "1"), 0, "is not excluded, p = 1 (one-sided non-inferiority test, exact, level 0.05)"),
])  # fmt: skip
def test_a_script_can_stop_where_the_second_run_is_worse(
    home: Home, broken: int, options: tuple[str, ...], code: int, words: str
) -> None:
    keep(home, later(two_runs(0, broken, 60)))
    ran = run("compare", A, B, *options)
    assert (ran.code, ran.err) == (code, "")
    assert words in (ran.out.splitlines()[-1] if "--fail-if" in options else ran.out)
    found = run("compare", A, B, *options, "--json")
    assert found.code == code
    assert (found.json["gate"] is not None) == ("--fail-if" in options)
    assert (found.json["noninferiority"] is not None) == ("--margin" in options)


def test_the_gate_counts_the_questions_that_only_one_run_scored(home: Home) -> None:
    first, second = later(two_runs(0, 3, 20))
    keep(home, (first, second.model_copy(update={"rows": second.rows[:8]})))
    ran = run("compare", A, B, "--fail-if", "worse")
    assert ran.code == 0
    passed = (
        "passed: no loss is proven (3 answers differ; at least 6 must for p < 0.05; 12 questions that only A scored "
        "left out)."
    )
    assert passed in " ".join(ran.out.split())


@pytest.mark.parametrize(("arguments", "message"), [
    (("nothing", B), 'There is no run "nothing"'),
    ((A, B, "--rule", "brid"), 'Did you mean "bird"'),
    ((A, B, "--html", "/nowhere/page.html"), "there is no folder"),
    ((A, B, "--fail-if", "better"), "worse"),
    ((A, B, "--margin", "0"), "0<x<100"),
    ((A, B, "--margin", "ten"), "is not a valid number."),
    ((A, A, "--fail-if", "worse"), "The gate cannot decide: A and B are the same run"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_words(
    home: Home, arguments: tuple[str, ...], message: str
) -> None:
    keep(home, later(two_runs(3, 1, 20)))
    run("compare", *arguments).assert_refused(message)


def test_runs_are_listed_newest_first_with_numerator_and_denominator(home: Home) -> None:
    keep(home, later(two_runs(14, 2, 60)))
    lines = run("runs").out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == [B, A]
    assert "60.00 %   36 of 60" in lines[2] and "complete" not in lines[2], "only another end is told"
    short = run("runs", "--limit", "1").out
    assert A not in short and "the latest 1 of 2" in short
    run("runs", "--benchmark", "spider-dev").assert_refused('There is no run of "spider-dev"')
    known = run("runs", "--json").json["runs"][0]["benchmark"]
    run("runs", "--benchmark", f"{known}x").assert_refused(f'Did you mean "{known}"')


def test_runs_as_json_tell_what_is_not_known_yet(home: Home) -> None:
    assert run("runs", "--json").json == {"runs": [], "total": 0}
    first, second = later(two_runs(14, 2, 60))
    keep(home, (first,))
    Warehouse(home.warehouse).start(make_run(run_id=B, started=second.started))
    newest, oldest = run("runs", "--json").json["runs"]
    assert (newest["run_id"], newest["status"], newest["correct"]) == (B, "running", None)
    assert (oldest["mlflow_run_id"], oldest["correct"], oldest["total"]) == (MLFLOW[A], 24, 60)
    assert oldest["started"] == "2026-11-21T02:00:00Z"


def test_the_page_is_written_also_when_the_text_goes_to_head(home: Home, tmp_path: Path) -> None:
    keep(home, later(two_runs(14, 2, 60)))
    page = tmp_path / "page.html"
    command = f'"{sys.executable}" -m flows.cli compare {A} {B} --all --html "{page}" | head -1'
    ran = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.stderr == ""
    assert page.read_text(encoding="utf-8").endswith("</html>\n")


@pytest.mark.parametrize(("runs", "code"), [((A, B), 0), ((B, A), 1)])
def test_the_gate_holds_also_where_nobody_reads_its_output(
    home: Home, runs: tuple[str, str], code: int
) -> None:
    keep(home, later(two_runs(14, 2, 60)))
    gate = f'"{sys.executable}" -m flows.cli compare {" ".join(runs)} --fail-if worse'
    for output in ("", "--json"):
        command = f"(sleep 0.5; {gate} {output}; echo $? >&2) | true"
        ran = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert ran.stderr == f"{code}\n"


@pytest.mark.slow
def test_two_evaluations_can_be_compared_right_away_and_an_oracle_analysis_wins_against_nobody(
    demo: CommandLine,
) -> None:
    def evaluated(pipeline: str, *more: str) -> Any:
        ran = demo.run("evaluate", "--pipeline", pipeline, "--limit", "6", "--json", *more)
        assert ran.code == 0, ran.err
        return ran.json

    runs = [evaluated(pipeline) for pipeline in ("zero-shot", "few-shot")]
    ran = demo.run("compare", "latest~1", "latest", "--json")
    assert ran.code == 0, ran.err
    found, difference = ran.json, runs[1]["correct"] - runs[0]["correct"]
    assert [found[letter]["run_id"] for letter in "ab"] == [each["run_id"] for each in runs]
    assert [found[letter]["ex"]["correct"] for letter in "ab"] == [each["correct"] for each in runs]
    assert len(found["result"]["fixed"]) - len(found["result"]["broken"]) == difference
    assert found["warnings"] == []
    assert {"key": "pipeline.demonstrations.k", "a": "0", "b": "3"} in found["settings"]
    assert demo.run("compare", *(each["mlflow"]["run_id"] for each in runs), "--json").json == found

    oracle = evaluated("dac", "--set", "pipeline.dac.oracle=both")
    result = demo.run("compare", "latest~1", "latest", "--json").json["result"]
    assert result["better"] is None and result["verdict"].startswith("Not ranked")
    assert result["not_ranked"].startswith("B saw parts of the gold SQL")
    tags = {"oracle": "both", "changed": "pipeline.dac.oracle=both"}
    assert oracle["tags"].items() >= tags.items() and not tags.keys() & runs[1]["tags"].keys()
    assert demo.run("runs", "--json").json["runs"][0]["tags"] == oracle["tags"]
    assert "complete, oracle" in demo.run("runs", "--limit", "1").out
