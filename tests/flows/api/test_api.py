"""The public interface inside of a running event loop, as a notebook has one: its documented examples, and errors."""

import asyncio
import doctest
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from numpy import arange, int64
from pandas import NA

from flows.api import crosscheck as does
from flows.api import inputs, results
from flows.api import results as scores
from flows.api.crosscheck import Crosscheck
from flows.api.inputs import grid_axes, in_thread, restored_environment
from flows.runtime.control import Control
from flows.runtime.output import frame
from tasks.core.errors import CrosscheckError
from tasks.settings.home import Home
from tests.support.command_line import ROOT


@pytest.fixture
def home(prefect_home: Home, built_demo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the demo, which CROSSCHECK_HOME names."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(prefect_home.path))
    return Path(shutil.copytree(built_demo, prefect_home.path, dirs_exist_ok=True))


@pytest.fixture
def crosscheck(built_demo: Path, tmp_path: Path) -> Crosscheck:
    """The interface of a working folder with the demo."""
    return Crosscheck(home=shutil.copytree(built_demo, tmp_path / "home"), quiet=True)


def prefect_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}


@pytest.mark.slow
@pytest.mark.usefixtures("home")
async def test_the_documented_examples_run_where_an_event_loop_runs() -> None:
    assert asyncio.get_running_loop()
    before = prefect_variables()
    runner, shared = doctest.DocTestRunner(), dict(vars(does))
    page = ROOT / "docs" / "python.md"
    text = page.read_text(encoding="utf-8")
    guide = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    examples = [
        each for module in (does, scores, results, inputs) for each in doctest.DocTestFinder().find(module)
    ]
    for example in (guide, *examples):
        example.globs = shared
        runner.run(example, clear_globs=False)
    assert (runner.failures, runner.tries > 20) == (0, True)
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), shared)
    assert shared["comparison"].result.questions == 3
    assert prefect_variables() == before


@pytest.mark.slow
async def test_a_question_on_a_database_of_ones_own(home: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.sqlite") as shop:
        shop.execute("CREATE TABLE customers (name TEXT, city TEXT)")
        shop.executemany("INSERT INTO customers VALUES (?, ?)", [("Ann", "Lyon"), ("Bo", "Nice")])
    question, interface = "List the name of all customers.", Crosscheck(home=home, quiet=True)
    answer = interface.answer(question, tmp_path / "shop.sqlite", pipeline="zero-shot")
    assert (answer.error, answer.row_count) == (None, 2)
    assert answer.sql and answer.table.iloc[:, 0].to_list() == ["Ann", "Bo"]


@pytest.mark.parametrize(("call", "part"), [
    (lambda c: c.evaluate("dmeo"), 'Did you mean "demo"'),
    (lambda c: c.evaluate(settings={"pipeline.demonstration.k": 1}), 'Did you mean "demonstrations"'),
    (lambda c: c.evaluate(settings=["backbone.retries=3"]), "write a mapping of keys to values"),
    (lambda c: c.sweep(grid="backbone.retries=3"), "grid='backbone.retries=3': write a mapping"),
    (lambda c: Crosscheck(home=c.home, tags="a=b").evaluate(limit=1), "tags='a=b': write a mapping"),
    (lambda c: c.score(["SELECT 1"]), "predictions=['SELECT 1']: write a mapping"),
    (lambda c: c.score({}), "there is no prediction to score"),
    (lambda c: c.score({1: 3}), "predictions[1]=3: a prediction is a text"),
    (lambda c: c.score_agent(print, name=3), "name=3 is not of the type str | None"),
    (lambda c: c.score_agent(print, trajectories=3), "trajectories=3 is not of the type"),
    (lambda c: c.evaluate(settings={"backbone.extra_body": {(1, 2): 3}}), "JSON cannot write it: keys must"),
    (lambda c: c.answer("How many?", "nowhere.sqlite"), "nowhere.sqlite"),
    (lambda c: c.score("nowhere.json"), "nowhere.json"),
    (lambda c: c.score({1: "SELECT 1"}, settings={"pipeline.x": 1}), "only benchmark.*"),
    (lambda c: c.compare("latest~1", "latest"), "crosscheck evaluate"),
    (lambda c: c.rerun("latest"), "crosscheck evaluate"),
    (lambda c: c.compare([], "latest"), "[] names no run"),
    (lambda c: c.compare("latest", "latest", margin="a lot"), "margin='a lot' is not of the type int | float"),
    (lambda c: c.compare("latest", "latest", rule=3), "rule=3 is not of the type str | None"),
    (lambda c: c.query(None), "sql=None is not of the type str"),
    (lambda c: (c.score({1: None}, questions=[1]), c.query("\ud800")), "The query cannot be run: "),
    (lambda c: c.answer(None, "shop.sqlite"), "question=None is not of the type str"),
    (lambda c: c.sweep(budget_usd="a lot", dry_run=True), "budget_usd='a lot' is not of the type"),
    (lambda c: c.plot("latest", columns=3), "columns=3: a figure takes 1 or 2 columns"),
    (lambda c: c.plot("latest", kind=["trend"]), "kind=['trend'] is not of the type str"),
    (lambda c: c.plot("latest", file=3), "file=3 is not of the type str"),
    (lambda c: c.sweep(backbones=["ofline"]), 'Did you mean "offline"'),
    (lambda c: c.sweep(grid={"benchmark.rule": ["bird", "strict"]}), "the same for a whole sweep"),
    (lambda c: c.sweep(pipelines=[]), "at least one"),
    (lambda c: c.evaluate(limit=0), "limit=0: Input should be greater"),
    (lambda c: c.rerun(c.score({1: "SELECT 1"}, questions=[1]), only="bad"), "only='bad': Input"),
    (lambda c: c.sweep(budget_usd=-1), "--budget -1: "),
    (lambda c: c.runs(), "crosscheck evaluate"),
    (lambda c: c.available("pipelines"), "kind='pipelines': Did you mean \"pipeline\"?"),
    (lambda c: Crosscheck(home=c.home, tags={"sweep": "x"}).evaluate(limit=1), "--tag"),
])  # fmt: skip
async def test_bad_input_is_the_error_of_the_command_line(
    crosscheck: Crosscheck, call: "object", part: str
) -> None:
    with pytest.raises(CrosscheckError) as error:
        call(crosscheck)  # type: ignore[operator]
    assert part in str(error.value)


@pytest.mark.parametrize(
    "one", [{"pipelines": "few-shot"}, {"backbones": "offline"}, {"grid": {"pipeline.demonstrations.k": 3}}]
)
def test_a_text_or_number_in_place_of_a_list_is_one_value(
    crosscheck: Crosscheck, one: dict[str, Any]
) -> None:
    chosen = {"pipelines": ["few-shot"], "questions": 1, "dry_run": True}
    (cell,) = crosscheck.sweep(**(chosen | one)).cells
    assert repr(crosscheck.sweep(**(chosen | one))) == "<1 combination, none of them evaluated>"
    assert cell.cell.settings.label == "offline | few-shot" and cell.estimated.calls == 1
    assert grid_axes({"pipeline.prompt.task": "sql"}) == [['pipeline.prompt.task="sql"']]


def test_values_of_frames_and_arrays_are_taken_as_plain_ones(crosscheck: Crosscheck) -> None:
    predictions = {int64(1): "SELECT 1", int64(2): NA, int64(3): float("nan")}
    run = crosscheck.score(predictions, questions=arange(1, 4))
    assert crosscheck.predictions(run)["sql"].to_list() == ["SELECT 1", NA, NA]
    again = crosscheck.score(
        dict(crosscheck.predictions(run)[["question_id", "sql"]].values), questions="1-3"
    )
    assert crosscheck.compare(run, again).difference == 0
    assert grid_axes({"pipeline.demonstrations.k": arange(2)}) == [
        ["pipeline.demonstrations.k=0", "pipeline.demonstrations.k=1"]
    ]


METRIC = """
from crosscheck import Measurement, metric


@metric("Mine", unit="calls")
def mine(run):
    return Measurement({})
"""


def test_a_file_of_ones_own_that_was_edited_is_read_again(crosscheck: Crosscheck, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    values = []
    for text in ("1", "1 + 1"):
        file.write_text(METRIC.format(text), encoding="utf-8")
        run = crosscheck.score({1: "SELECT 1"}, settings={"benchmark.metrics": [f"{file}:mine"]})
        values.append(run.metrics["mine"]["value"])
    assert values == [1, 2]


@pytest.mark.parametrize("closing", ["2>&-", "<&- >&- 2>&-"])
def test_a_program_whose_streams_are_closed_shows_no_progress(crosscheck: Crosscheck, closing: str) -> None:
    program = f"from crosscheck import Crosscheck; Crosscheck(home={str(crosscheck.home)!r}).score({{1: 'SELECT 1'}})"
    closed = ["sh", "-c", f'"$@" {closing}', "sh", sys.executable, "-c", program]
    assert subprocess.run(closed, cwd=ROOT).returncode == 0


def test_a_run_and_a_comparison_are_printed_as_a_sentence(crosscheck: Crosscheck) -> None:
    run = crosscheck.score({1: "SELECT 1"}, name="one", questions=[1])
    told = f"demo · one · predictions, run {run.run_id}: execution accuracy 0.00 % (0 of 1, rule bird, 95 % interval "
    assert str(run).startswith(told) and len(str(run).splitlines()) == 1
    assert repr(run) == f"<{run}>"
    both = crosscheck.compare(run, run)
    assert str(both) == both.verdict and both.verdict.startswith("No difference: ")


def test_several_runs_of_a_system_are_compared_as_the_command_compares_them(crosscheck: Crosscheck) -> None:
    answers = ("SELECT 1", None, "SELECT 2", None)
    first, second, *others = (crosscheck.score({1: sql, 2: sql}, questions=[1, 2]) for sql in answers)
    both = crosscheck.compare([first, second.run_id], others)
    runs = [tuple(run.run_id for run in side.runs) for side in (both.a, both.b)]
    assert runs == [(first.run_id, second.run_id), tuple(run.run_id for run in others)]
    assert crosscheck.compare(f"{first.run_id}, {second.run_id}", "latest~1,latest") == both
    with pytest.raises(CrosscheckError, match="named twice"):
        crosscheck.compare([first, first], others)


def test_an_interrupt_asks_the_loop_to_stop_and_then_at_once_and_goes_through_where_nothing_can_be_stopped() -> (
    None
):
    control = Control()

    async def wait() -> str:
        control.loop = asyncio.get_running_loop()
        for asked in (control.stop, control.stop_now):  # two interrupts at once would be one
            os.kill(os.getpid(), signal.SIGINT)
            await asked.wait()
        return "stopped"

    before = signal.getsignal(signal.SIGINT)
    assert in_thread(lambda: asyncio.run(wait()), [control]) == "stopped"
    assert signal.getsignal(signal.SIGINT) == before
    end = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        end.wait()

    with pytest.raises(KeyboardInterrupt):
        in_thread(work)
    end.set()


def test_the_environment_is_restored_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSCHECK_A", "1")
    with pytest.raises(ValueError, match="x"), restored_environment():
        os.environ |= {"CROSSCHECK_A": "2", "CROSSCHECK_B": "2"}
        raise ValueError("x")
    assert (os.environ["CROSSCHECK_A"], "CROSSCHECK_B" in os.environ) == ("1", False)


def test_what_is_unknown_is_neither_zero_nor_a_number() -> None:
    n = 2**53 + 1  # no float
    made = frame([{"n": n, "usd": 0.0}, {"n": None, "usd": None}], ("n", "usd", "never"))
    assert made.n.iloc[0] == n
    assert [str(kind) for kind in made.dtypes[:2]] == ["Int64", "Float64"]
    assert made.never.to_list() == [NA, NA]
    assert made.isna().iloc[1].all() and not made[["n", "usd"]].isna().iloc[0].any()
