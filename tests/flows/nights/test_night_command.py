"""`crosscheck night` as users meet it: the list, a night in words, its page made anew, the exit code."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tasks.documents.html import html
from tasks.settings.home import Home
from tasks.tracking.night.document import night_document
from tasks.tracking.night.entry import Entry
from tasks.tracking.night.night import Night
from tasks.tracking.night.night_file import all_nights, as_json, write
from tasks.tracking.night.sentences import overdue
from tasks.tracking.warehouse.runs import Warehouse
from tests.support.in_process import run
from tests.tasks.tracking.comparison_samples import two_runs
from tests.tasks.tracking.night_samples import a_night

REFUSED = Entry(
    "demo",
    "closed",
    "zero-shot",
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


def test_a_red_night_ends_with_1_and_a_green_one_with_0(green: Night, red: Night) -> None:
    for night, code in ((green, 0), (red, 1)):
        ran = run("night", night.name)
        assert (ran.code, ran.err) == (code, "")
        assert f"\n{night.colour}: {night.verdict}\n" in ran.out


def test_a_night_is_told_with_its_numbers_and_what_mends_it(red: Night) -> None:
    ran = run("night", "latest")
    entry = red.entries[0]
    for part in (
        "42.00 %   42 of 100   32.8 to 51.8 %", "−17.00", "regression", "$25.0000", "0.50 s",
        "The ␛[31mkey was [red]refused[/].", "crosscheck evaluate --backbone closed",
        f"crosscheck compare {entry.baseline} {entry.run_id} --html",
    ):  # fmt: skip
        assert part in ran.out


def test_without_a_name_the_nights_are_listed(home: Home, green: Night, red: Night) -> None:
    ran = run("night")
    assert ran.code == 0
    assert "Red" in ran.out and "Green" in ran.out
    listed = run("night", "--json").json["nights"]
    assert {each["name"]: each["colour"] for each in listed} == {red.name: "Red", green.name: "Green"}
    assert {each["verdict"] for each in listed} == {red.verdict, green.verdict}


def test_a_night_that_should_have_ended_by_now_is_overdue(home: Home, green: Night) -> None:
    assert run("night", "--json").json["overdue"] is None
    write(replace(green, expected=green.started + timedelta(days=1)), home)
    told = "The nightly run of 2026-11-22 01:30 UTC is overdue"
    assert overdue(all_nights(home)[0], green.started + timedelta(days=1, minutes=50)) == ""
    assert overdue(all_nights(home)[0], green.started + timedelta(days=1, minutes=90)).startswith(told)
    write(replace(green, expected=green.started - timedelta(days=300)), home)
    assert "is overdue: it has left nothing here" in run("night").out


def test_json_is_the_object_that_is_kept(home: Home, red: Night) -> None:
    ran = run("night", red.name, "--json")
    assert ran.code == 1
    kept = (home.nights / "2026-11-21T01-30Z.json").read_text(encoding="utf-8")
    assert ran.json == as_json(red) == json.loads(kept)


def test_the_page_is_made_anew_from_what_is_kept(home: Home, red: Night, tmp_path: Path) -> None:
    file = tmp_path / "night.html"
    ran = run("night", "--html", str(file))
    assert ran.code == 1 and f"The page is {file}." in ran.out
    assert file.read_text(encoding="utf-8") == html(night_document(red, Warehouse(home.warehouse)))


def test_what_is_not_there_is_said_in_words(home: Home, tmp_path: Path) -> None:
    assert "There is no night" in run("night").out and "crosscheck up" in run("night").out
    assert run("night", "--json").json == {"nights": [], "overdue": None}
    for arguments in (("latest",), ("--html", str(tmp_path / "n.html"))):
        ran = run("night", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert "none has finished in this folder yet" in ran.err


@pytest.mark.usefixtures("green")
def test_mistakes_are_said_in_words(home: Home) -> None:
    for arguments, message in (
        (("2026-11-20T01:31Z",), 'Did you mean "2026-11-20T01:30Z"'),
        (("latest", "--html", "/nowhere/n.html"), "the page cannot be written"),
    ):
        ran = run("night", *arguments)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err and "Traceback" not in ran.err
    (home.nights / "broken.json").write_text("{", encoding="utf-8")
    assert "cannot be read" in run("night", "latest").err
