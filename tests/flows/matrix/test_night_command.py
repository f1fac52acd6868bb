"""`crosscheck nights show` as users meet it: the list, a night in words, its page made anew, the exit code."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tasks.documents.html import html
from tasks.pages.night import night_document
from tasks.pages.night_evaluation import overdue
from tasks.results.night import Night, NightEntry, all_nights, write
from tasks.results.run_record import json_of
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import two_runs, with_row
from tests.tasks.results.night_samples import a_night

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


def test_json_is_the_object_that_is_kept(home: Home, red: Night) -> None:
    ran = run("nights", "show", red.name, "--json")
    assert ran.code == 0
    kept = (home.nights / "2026-11-21T01-30Z.json").read_text(encoding="utf-8")
    assert ran.json == json_of(red) == json.loads(kept)


def test_the_page_is_made_anew_from_what_is_kept(home: Home, red: Night, tmp_path: Path) -> None:
    file = tmp_path / "night.html"
    ran = run("nights", "show", "--html", str(file))
    assert ran.code == 0 and f"The page is {file}." in ran.out
    assert file.read_text(encoding="utf-8") == html(night_document(red, Warehouse(home.warehouse)))


def test_what_is_not_there_is_said_in_words(home: Home, tmp_path: Path) -> None:
    assert (
        "No nightly run has finished" in run("nights", "show").out
        and "crosscheck up" in run("nights", "show").out
    )
    assert run("nights", "show", "--json").json == {"nights": [], "overdue": None}
    for arguments in (("latest",), ("--html", str(tmp_path / "n.html"))):
        ran = run("nights", "show", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert "none has finished in this folder yet" in ran.err


@pytest.mark.usefixtures("green")
def test_mistakes_are_said_in_words(home: Home) -> None:
    for arguments, message in (
        (("2026-11-20T01:31Z",), 'Did you mean "2026-11-20T01:30Z"'),
        (("latest", "--html", "/nowhere/n.html"), "the page cannot be written"),
    ):
        ran = run("nights", "show", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err and "Traceback" not in ran.err
    (home.nights / "broken.json").write_text("{", encoding="utf-8")
    assert "cannot be read" in run("nights", "show", "latest").err
