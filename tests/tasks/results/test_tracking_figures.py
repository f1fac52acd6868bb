"""Charts of MLflow: well-formed SVG files of a size to look at, absent where there is nothing to draw."""

import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from tasks.results.curves import candidate_chart, figures
from tasks.results.mlflow.package import change_figure, stage_figure
from tests.tasks.results.samples import make_report, report_of

SVG = "{http://www.w3.org/2000/svg}"


def parsed(figure: bytes | None) -> ElementTree.Element:
    assert figure is not None
    root = ElementTree.fromstring(figure)
    assert root.tag == f"{SVG}svg"
    return root


def texts(figure: bytes | None) -> list[str]:
    return [each.text or "" for each in parsed(figure).iter(f"{SVG}text")]


@pytest.mark.parametrize("stages", [1, 2, 4, 9])
def test_figures_are_svg_of_sensible_size(stages: int) -> None:
    names = tuple(f"{number}_stage_{number}" for number in range(1, stages + 1))
    report = make_report(50, names)
    drawn = [stage_figure(report, "title"), change_figure(report, "title")]
    assert (drawn[1] is None) == (stages == 1)
    for figure in drawn:
        if figure is not None:
            root = parsed(figure)
            assert 500 < float(root.get("width", 0)) < 1400
            width, height = float(root.get("width", 0)), float(root.get("height", 0))
            for each in root.iter(f"{SVG}text"):
                assert 0 <= float(each.get("x", -1)) <= width
                assert 0 <= float(each.get("y", -1)) <= height


def test_numerators_and_denominators_stand_beside_the_bars() -> None:
    report = make_report(50)
    said = texts(stage_figure(report, "weak-1 on <bird>"))
    assert "weak-1 on <bird>" in said
    for stage in report.stages:
        assert f"{100 * (stage.ex or 0):.2f} %" in said
        assert f"{stage.correct:g} of 50" in said
    changed = texts(change_figure(report, "t"))
    for before, stage in zip(report.stages, report.stages[1:], strict=False):
        assert f"+{stage.fixed}" in changed
        assert f"of {before.correct:g} right before" in changed


def test_a_bar_is_as_high_as_its_share() -> None:
    report = make_report(50)
    bars = [
        each for each in parsed(stage_figure(report, "t")).iter(f"{SVG}rect") if each.get("class") == "fixed"
    ]
    heights = [float(each.get("height", 0)) for each in bars]
    full = heights[0] / (report.stages[0].ex or 1)
    assert heights == [pytest.approx(full * (stage.ex or 0), abs=0.02) for stage in report.stages]


def test_different_reports_give_different_figures() -> None:
    assert stage_figure(make_report(50), "t") != stage_figure(make_report(51), "t")
    assert change_figure(make_report(50), "t") == change_figure(make_report(50), "t")


def test_nothing_to_score_gives_no_figure() -> None:
    assert stage_figure(report_of(()), "t") is None


def test_hostile_names_do_not_act() -> None:
    figure = stage_figure(make_report(5), "</text><script>alert(1)</script>")
    assert not list(parsed(figure).iter(f"{SVG}script"))


def test_drawing_needs_no_plotting_library() -> None:
    code = "import sys, tasks.results.mlflow.package; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def curve(n: int, usd: float | None) -> dict[str, Any]:
    def share(value: float) -> dict[str, Any]:
        return {"correct": 100 * value, "total": 100, "value": value, "interval": [value - 0.1, value + 0.1]}

    return {
        "n": n,
        "curve": [
            {
                "k": k,
                "pass": share(0.5 + 0.3 * k / n),
                "majority": share(0.5 + 0.2 * k / n),
                "usd": usd and k * usd,
                "tokens": None,
                "calls": 2.0 * k,
            }
            for k in range(1, n + 1)
        ],
    }


def test_a_curve_has_a_point_per_number_of_candidates_at_its_cost() -> None:
    root = parsed(
        dict(figures({"candidates": curve(8, 0.0025)}, "weak-1 on <bird>"))["figures/candidates.svg"]
    )
    points = list(root.iter(f"{SVG}circle"))
    across = [float(each.get("cx", 0)) for each in points]
    assert len(points) == 8 and across == sorted(across)
    assert across[7] - across[3] == pytest.approx(across[5] - across[1], abs=0.05)
    heights = [float(each.get("cy", 0)) for each in points]
    assert heights == sorted(heights, reverse=True)
    said = [each.text or "" for each in root.iter(f"{SVG}text")]
    assert {"USD per question", "0.005", "0.02"} <= set(said)
    assert any("weak-1 on <bird>" in text for text in said)
    assert dict(figures({}, "t")) == {}


def test_two_runs_share_a_unit_that_is_known_of_both() -> None:
    chart = candidate_chart([("a", "A", curve(4, 0.1)), ("b", "B", curve(8, None))])
    assert chart is not None and chart.title == "calls per question"
    assert [len(each.points) for each in chart.lines] == [4, 4, 8, 8]
    assert candidate_chart([("a", "A", None), ("b", "B", None)]) is None
