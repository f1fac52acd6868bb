"""`crosscheck nights show` and `crosscheck nights baseline` as users meet them."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tasks.documents.html import html
from tasks.pages.night import night_document
from tasks.pages.night_evaluation import overdue
from tasks.results.night import Night, NightEntry, all_nights, write
from tasks.results.night_baseline import current_pins, pin_history, pins_file
from tasks.results.run_record import json_of
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import two_runs, with_row
from tests.tasks.results.night_samples import a_night, keep

REFUSED = NightEntry(
    "demo",
    "closed",
    "zero-shot",
    run=None,
    problem="The \x1b[31mkey was [red]refused[/].",
    continue_with="crosscheck evaluate --backbone closed",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


@pytest.fixture
def green(home: Home) -> Night:
    night = a_night(Warehouse(home.warehouse), two_runs(4, 7, 100), name="2026-11-20T01:30Z")
    write(night, home)
    return night


@pytest.fixture
def red(home: Home) -> Night:
    night = a_night(
        Warehouse(home.warehouse), two_runs(3, 20, 100), name="2026-11-21T01:30Z", others=[REFUSED]
    )
    write(night, home)
    return night


def test_looking_at_a_night_never_fails_and_a_script_asks_for_an_exit_code(
    home: Home, green: Night, red: Night
) -> None:
    amber = a_night(Warehouse(home.warehouse), two_runs(2, 10, 100), name="2026-11-22T01:30Z")
    write(amber, home)
    for night, red_code, amber_code in ((green, 0, 0), (amber, 0, 1), (red, 1, 1)):
        shown = run("nights", "show", night.name)
        assert (shown.code, shown.err) == (0, "")
        assert f"\n{night.colour}: {night.verdict}\n" in shown.out
        assert run("nights", "show", night.name, "--fail-if", "red").code == red_code
        assert run("nights", "show", night.name, "--fail-if", "amber").code == amber_code


def test_a_night_is_told_with_its_numbers_and_what_mends_it(red: Night) -> None:
    ran = run("nights", "show", "latest")
    entry = red.entries[0]
    for part in (
        "42.00 %   42 of 100   32.8 to 51.8 %", "−17.00", "regression", "$25.0000", "0.50 s",
        "The ␛[31mkey was [red]refused[/].", "crosscheck evaluate --backbone closed",
        f"crosscheck compare {entry.baseline} {entry.run_id} --html",
    ):  # fmt: skip
        assert part in ran.out


def test_a_night_says_that_replies_are_of_several_models(home: Home) -> None:
    *_, current = two_runs(3, 20, 100)
    stage, *stages = current.rows[0].outcome.stages
    call = replace(stage.calls[0], model="another model")
    outcome = replace(current.rows[0].outcome, stages=(replace(stage, calls=(call,)), *stages))
    night = a_night(Warehouse(home.warehouse), [with_row(current, 0, outcome=outcome)])
    write(night, home)
    assert "The replies are of 2 models" in " ".join(run("nights", "show", "latest").out.split())


def test_without_a_name_the_nights_are_listed(home: Home, green: Night, red: Night) -> None:
    ran = run("nights", "show")
    assert ran.code == 0
    assert "Red" in ran.out and "Green" in ran.out
    listed = run("nights", "show", "--json").json["nights"]
    assert {each["name"]: each["colour"] for each in listed} == {red.name: "Red", green.name: "Green"}
    assert {each["verdict"] for each in listed} == {red.verdict, green.verdict}


def test_a_night_that_should_have_ended_by_now_is_overdue(home: Home, green: Night) -> None:
    assert run("nights", "show", "--json").json["overdue"] is None
    write(replace(green, expected=green.started + timedelta(days=1)), home)
    told = "The nightly run of 2026-11-22 01:30 UTC is overdue"
    assert overdue(all_nights(home)[0], green.started + timedelta(days=1, minutes=50)) == ""
    assert overdue(all_nights(home)[0], green.started + timedelta(days=1, minutes=90)).startswith(told)
    write(replace(green, expected=green.started - timedelta(days=300)), home)
    assert "is overdue: it has left nothing here" in run("nights", "show").out


def test_json_is_the_object_that_is_kept_and_the_page_is_made_anew_from_it(
    home: Home, red: Night, tmp_path: Path
) -> None:
    ran = run("nights", "show", red.name, "--json")
    assert ran.code == 0
    kept = (home.nights / "2026-11-21T01-30Z.json").read_text(encoding="utf-8")
    assert ran.json == json_of(red) == json.loads(kept)
    file = tmp_path / "night.html"
    ran = run("nights", "show", "--html", str(file))
    assert ran.code == 0 and f"The page is {file}." in ran.out
    assert file.read_text(encoding="utf-8") == html(night_document(red, Warehouse(home.warehouse)))


def test_what_is_not_there_is_said_in_words(home: Home, tmp_path: Path) -> None:
    empty = run("nights", "show").out
    assert "No nightly run has finished" in empty and "crosscheck up" in empty
    assert run("nights", "show", "--json").json == {"nights": [], "overdue": None}
    for arguments in (("latest",), ("--html", str(tmp_path / "n.html"))):
        run("nights", "show", *arguments).assert_refused("none has finished in this folder yet")


@pytest.mark.usefixtures("green")
def test_mistakes_are_said_in_words(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    for arguments, message in (
        (("2026-11-20T01:31Z",), 'Did you mean "2026-11-20T01:30Z"'),
        (("latest", "--html", "/nowhere/n.html"), "there is no folder"),
    ):
        run("nights", "show", *arguments).assert_refused(message)
    (home.nights / "broken.json").write_text("{", encoding="utf-8")
    assert run("nights", "show", "latest").code == 0 and "broken.json cannot be read" in caplog.text


NAME = "bird-dev | weak-1 | rsl-sql"


@pytest.fixture
def pinning_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    keep(Warehouse(Home(tmp_path).warehouse), two_runs(1, 2, 4))
    return Home(tmp_path)


def test_a_baseline_is_pinned_moved_and_unpinned_and_every_change_stays_listed(pinning_home: Home) -> None:
    assert "No baseline is pinned" in run("nights", "baseline").out
    first = run("nights", "baseline", "latest~1", "--reason", "Release 4")
    assert (first.code, first.err) == (0, "") and NAME in first.out
    moved = run("nights", "baseline", "latest", "--reason", "Costs [half]: agreed", "--json").json
    pin = current_pins(pin_history(pinning_home))[NAME]
    assert (moved["name"], moved["run_id"], pin.run_id) == (
        NAME,
        pin.run_id,
        Warehouse(pinning_home.warehouse).runs()[0].run_id,
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
def test_mistakes_are_said_and_change_nothing(
    pinning_home: Home, arguments: tuple[str, ...], message: str
) -> None:
    run("nights", "baseline", *arguments).assert_refused(message)
    assert not pins_file(pinning_home).exists()
