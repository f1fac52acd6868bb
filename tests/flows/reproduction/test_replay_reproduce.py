"""`crosscheck reproduce`: the published figures come out of our own code, and a wrong one is seen."""

import json
from pathlib import Path

import pytest

from flows.reproduction.published import Figure, Reproduction
from tests.support.command_line import CommandLine


@pytest.mark.slow
def test_every_published_figure_comes_out(crosscheck: CommandLine, shared_data: Path) -> None:
    ran = crosscheck.run("reproduce", "--data", str(shared_data), "--json")
    assert ran.code == 0, ran.out + ran.err
    assert ran.json["matches"]
    ours = {
        reproduction["name"]: {figure["name"]: figure["ours"] for figure in reproduction["figures"]}
        for reproduction in ran.json["reproductions"]
    }
    assert list(ours) == ["rsl-sql-linking", "rsl-sql-stages", "superhero", "spider-dail"]
    linking = ours["rsl-sql-linking"]
    figures = (
        "NSR, %",
        'published "SRR", %',
        "tables per question",
        "columns per question",
        "strict recall, of 1,534",
    )
    assert [
        [linking[f"{link}: {figure}"] for figure in figures] for link in ("forward", "backward", "both")
    ] == [
        [90.0467, 84.7458, 3.4355, 9.1297, 1101],
        [95.5458, 90.4824, 5.3155, 10.2940, 1309],
        [97.6904, 94.3286, 5.4087, 13.0287, 1409],
    ]
    assert [value for name, value in linking.items() if "verdicts as released" in name] == [1534] * 3
    assert list(ours["rsl-sql-stages"].values()) == [962, 998, 1019, 1031, 92, 56, 81, 24, 148, 109, 1054]
    assert list(ours["superhero"].values()) == [109, 112, 112, 114, 84]
    assert list(ours["spider-dail"].values()) == [972, 788, 809, 2, 6, 1, 681]


def test_a_figure_that_does_not_come_out_is_named_and_ends_with_1(
    crosscheck: CommandLine, shared_data: Path, tmp_path: Path
) -> None:
    """The authors' data with one verdict turned around."""
    released = shared_data / "recordings" / "rsl-sql-gpt-4o-bird-dev"
    copy = tmp_path / "data" / "recordings" / "rsl-sql-gpt-4o-bird-dev"
    (copy / "correct").mkdir(parents=True)
    (tmp_path / "data" / "bird").symlink_to(shared_data / "bird")
    for file in released.glob("*.*"):
        (copy / file.name).symlink_to(file)
    for file in (released / "correct").iterdir():
        verdicts = json.loads(file.read_text())
        if file.name == "sql4.json":
            verdicts[verdicts.index(0)] = 1
        (copy / "correct" / file.name).write_text(json.dumps(verdicts))
    ran = crosscheck.run("reproduce", "rsl-sql-stages", "--data", str(tmp_path / "data"))
    assert ran.code == 1
    assert [line.split()[:1] for line in ran.out.splitlines() if "MISMATCH" in line] == [["SQL4"]]
    assert "10 of 11 figures match" in ran.out


def test_without_the_data_it_says_where_it_looked(crosscheck: CommandLine, tmp_path: Path) -> None:
    ran = crosscheck.run("reproduce", "superhero", "--data", str(tmp_path))
    assert ran.code == 2
    assert str(tmp_path / "bird") in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.slow
def test_what_nobody_published_is_called_expected_here(crosscheck: CommandLine, shared_data: Path) -> None:
    names = ("superhero", "spider-dail")
    found = crosscheck.run("reproduce", *names, "--data", str(shared_data), "--json").json["reproductions"]
    superhero, dail = (
        [(each["published"], each["expected"]) for each in reproduction["figures"]] for reproduction in found
    )
    assert superhero == [(108, 109), (110, 112), (110, 112), (112, 114), (None, 84)]
    assert [published for published, _ in dail] == [None] * 7
    assert [expected for _, expected in dail] == [972, 788, 809, 2, 6, 1, 681]


def test_the_table_has_a_column_for_what_is_expected_here() -> None:
    figures = (Figure("a", 108, 109, expected=109), Figure("b", None, 83, expected=84), Figure("c", 5, None))
    lines = list(Reproduction("r", "t", figures).lines())
    assert lines[1].split() == ["published", "expected", "here", "ours"]
    assert [line.split() for line in lines[2:5]] == [
        ["a", "108", "109", "109", "match"],
        ["b", "–", "84", "83", "MISMATCH"],
        ["c", "5", "–", "unknown", "MISMATCH"],
    ]
    assert lines[-1].strip() == "1 of 3 figures match; 2 are compared with what is expected here"


@pytest.mark.parametrize(
    ("published", "ours", "digits", "matches"),
    [
        (90.0467, 90.04671, 4, True),
        (90.0467, 90.0466, 4, False),
        (962, 962.0, 0, True),
        (962, 961, 0, False),
        (962, None, 0, False),
    ],
)
def test_figures_agree_to_the_decimal_places_and_an_unknown_one_never_does(
    published: float, ours: float | None, digits: int, matches: bool
) -> None:
    figure = Figure("f", published, ours, digits)
    assert figure.matches is matches
    assert Reproduction("r", "t", (figure,)).as_object()["matches"] is matches
