"""Figures: real PNG files, of a size to look at, absent where there is nothing to draw."""

import struct
import sys

import pytest

from tasks.tracking.mlflow.charts import change_figure, stage_figure
from tests.tasks.tracking.samples import make_report, report_of


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("stages", [1, 2, 4, 9])
def test_figures_are_png_of_sensible_size(stages: int) -> None:
    names = tuple(f"{number}_stage_{number}" for number in range(1, stages + 1))
    report = make_report(50, names)
    drawn = [stage_figure(report, "title"), change_figure(report, "title")]
    assert (drawn[1] is None) == (stages == 1)
    for png in drawn:
        if png is not None:
            width, height = size(png)
            assert 700 < width < 2400
            assert 500 < height < 800
            assert 10_000 < len(png) < 200_000


def test_different_reports_give_different_figures() -> None:
    assert stage_figure(make_report(50), "t") != stage_figure(make_report(51), "t")
    assert change_figure(make_report(50), "t") == change_figure(make_report(50), "t")


def test_nothing_to_score_gives_no_figure() -> None:
    assert stage_figure(report_of(()), "t") is None


def test_drawing_leaves_no_global_state_behind() -> None:
    stage_figure(make_report(5), "t")
    assert "matplotlib.pyplot" not in sys.modules
