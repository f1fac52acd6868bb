"""`crosscheck nights baseline` as users meet it: pin a run with a reason, move it, unpin it, list the changes."""

from pathlib import Path

import pytest

from tasks.results.night_baseline import current_pins, pin_history, pins_file
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import two_runs
from tests.tasks.results.night_samples import keep

NAME = "bird-dev | weak-1 | rsl-sql"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    keep(Warehouse(Home(tmp_path).warehouse), two_runs(1, 2, 4))
    return Home(tmp_path)


def test_a_baseline_is_pinned_moved_and_unpinned_and_every_change_stays_listed(home: Home) -> None:
    assert "No baseline is pinned" in run("nights", "baseline").out
    first = run("nights", "baseline", "latest~1", "--reason", "Release 4")
    assert (first.code, first.err) == (0, "") and NAME in first.out
    moved = run("nights", "baseline", "latest", "--reason", "Costs [half]: agreed", "--json").json
    pin = current_pins(pin_history(home))[NAME]
    assert (moved["name"], moved["run_id"], pin.run_id) == (
        NAME,
        pin.run_id,
        Warehouse(home.warehouse).runs()[0].run_id,
    )
    listed = run("nights", "baseline").out
    assert listed.index("Costs [half]: agreed") < listed.index("Release 4")
    assert "pinned" in listed and "before" in listed
    assert run("nights", "baseline", "--unpin", NAME, "--reason", "Gone").code == 0
    told = run("nights", "baseline", "--json").json
    assert told["baselines"] == [] and [each["reason"] for each in told["changes"]] == [
        "Release 4", "Costs [half]: agreed", "Gone",
    ]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), [
    (("latest",), "moved with a reason"),
    (("latest", "--reason", " "), "moved with a reason"),
    (("--reason", "why"), "needs a RUN"),
    (("latest", "--unpin", NAME, "--reason", "why"), "either a RUN"),
    (("--unpin", "bird-dev | weak-1 | rsl", "--reason", "why"), "No baseline is pinned"),
    (("nothing", "--reason", "why"), 'There is no run "nothing"'),
])  # fmt: skip
def test_mistakes_are_said_and_change_nothing(home: Home, arguments: tuple[str, ...], message: str) -> None:
    ran = run("nights", "baseline", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert not pins_file(home).exists()
