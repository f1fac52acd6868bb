"""Figures of runs equal the records, and equal figures are equal files; the Pareto front; the chart of candidates."""

import datetime
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import image
from matplotlib.axes import Axes

from flows.cli.commands.paper import Kind as Offered
from tasks.core.errors import ConfigurationError, DataError
from tasks.pages.plots import KINDS, labels, plot, save
from tasks.results.build_record import record_of
from tasks.results.curves import Priced, candidate_chart, pareto_blocks, pareto_front
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Cost
from tasks.scoring.scores import Accuracy
from tests.tasks.results.samples import make_rows, make_run

DAY = datetime.timedelta(days=1)


def record(number: int = 0, usd: float | None = 1.0, **changes: Any) -> RunRecord:
    run = make_run()
    run = run.model_copy(
        update={
            "run_id": f"20261120-01000{number}-00000{number}",
            "started": run.started + number * DAY,
            **changes,
        }
    )
    return record_of(run, make_rows(60, shift=number), cost=Cost(calls=1, from_scratch_usd=usd))


def heights(axes: Axes, label: str) -> list[float]:
    return [
        float(bar.get_height()) for group in axes.containers if group.get_label() == label for bar in group
    ]


def test_the_offered_kinds_are_those_that_can_be_drawn() -> None:
    assert tuple(KINDS) == get_args(Offered)


def test_a_waterfall_has_what_each_stage_fixed_and_broke() -> None:
    one, other = record(), record(1)
    total = one.stages[0].total
    for run, axes in zip((one, other), plot((one, other), "stages", 2).axes, strict=True):
        fixed, broken = heights(axes, "fixed"), heights(axes, "broken")
        assert any(fixed) and any(broken)
        assert fixed == pytest.approx([100 * (stage.fixed or 0) / total for stage in run.stages[1:]])
        assert broken == pytest.approx([-100 * (stage.broken or 0) / total for stage in run.stages[1:]])
        for (before, after), gained, lost in zip(pairwise(run.stages), fixed, broken, strict=True):
            assert 100 * (before.ex or 0) + gained + lost == pytest.approx(100 * (after.ex or 0))


def test_causes_are_shares_of_the_scored_questions_and_the_most_frequent_comes_first() -> None:
    runs = [record().model_copy(update={"scored": scored, "metrics": {"errors": each}}) for scored, each in (
        (50, {"wrong_table": 2, "timeout": 0, "wrong_value": 5}), (1000, {"wrong_table": 10, "extra_rows": 110}),
    )]  # fmt: skip
    (axis,) = plot(runs, "causes").axes
    assert [each.get_text() for each in axis.get_yticklabels()] == [
        "extra rows",
        "wrong value",
        "wrong table",
    ]
    assert [[float(bar.get_width()) for bar in group] for group in axis.containers] == [
        [0, 10, 4], [11, 0, 1]
    ]  # fmt: skip
    assert "% of the scored questions" in axis.get_xlabel()


def test_the_line_of_the_pareto_figure_joins_the_systems_that_no_other_beats() -> None:
    cheap, dear, beaten = record(0, 1.0), record(0, 2.0), record(0, 3.0)
    better = {"bird": replace(dear.score, correct=dear.score.correct + 5)}
    dear = dear.model_copy(update={"scores": better, "run_id": "20261120-020000-000009"})
    (axis,) = plot((beaten, dear, cheap), "pareto").axes
    front = axis.lines[0].get_xydata()
    assert np.asarray(front).tolist() == [
        [1.0, pytest.approx(100 * (cheap.score.ex or 0))], [2.0, pytest.approx(100 * (dear.score.ex or 0))],
    ]  # fmt: skip


def test_a_trend_is_a_line_for_each_combination_by_date() -> None:
    runs = [record(2), record(0), record(1, backbone="another")]
    (axis,) = plot(runs, "trend").axes
    lines = [group[0] for group in axis.containers if group[0] is not None]
    dates = sorted([np.asarray(line.get_xdata()).size for line in lines])
    assert dates == [1, 2]
    (longer,) = [line for line in lines if np.asarray(line.get_xdata()).size == 2]
    first, last = np.asarray(longer.get_xdata()).tolist()
    assert first < last


def test_equal_figures_are_equal_files_in_each_format(tmp_path: Path) -> None:
    for kind in ("svg", "pdf", "png"):
        files = [tmp_path / f"{number}.{kind}" for number in range(2)]
        for file in files:
            save(plot((record(), record(1)), "stages", 2), file)
        assert files[0].read_bytes() == files[1].read_bytes() != b""
    texts = {each.text for each in ElementTree.parse(tmp_path / "0.svg").iter() if each.text}
    assert {"execution accuracy (%)", "augmented sql"} <= texts  # text, not paths
    assert image.imread(tmp_path / "0.png").shape[1] == pytest.approx(7 * 300, abs=2)


@pytest.mark.parametrize(
    ("kind", "runs", "message"),
    [
        ("stages", [record().model_copy(update={"stages": ()})], "has no stages"),
        ("stages", [record()] * 5, "at most 4 runs"),
        ("causes", [record().model_copy(update={"metrics": {}})], "for a known cause"),
        ("pareto", [record(0, None)], "The cost of the run .* is unknown"),
        (
            "pareto",
            [record(0, None, settings={"pipeline": {"kind": "predictions"}})],
            "unknown: its answers were made elsewhere. Leave the run out",
        ),
        ("pareto", [record(0, 0.0)], "All of these runs are free"),
        (
            "pareto",
            [record(), record(1).model_copy(update={"benchmark": "other"})],
            "not of the same questions",
        ),
        ("trend", [record().model_copy(update={"correct": None})], "has no score yet"),
    ],
)
def test_what_cannot_be_drawn_is_said(kind: str, runs: list[RunRecord], message: str) -> None:
    with pytest.raises(DataError, match=message):
        plot(runs, kind)


def test_an_unknown_kind_and_an_unknown_format_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match='no figure "pie"'):
        plot([record()], "pie")
    with pytest.raises(ConfigurationError, match=r"must end in \.pdf, \.svg or \.png"):
        save(plot([record()], "stages"), tmp_path / "figure.gif")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        save(plot([record()], "stages"), tmp_path / "no folder" / "figure.pdf")


def test_runs_are_named_by_what_distinguishes_them() -> None:
    assert labels([record()]) == ["rsl-sql, weak-1"]
    two = [record(0, backbone="one"), record(1, backbone="two")]
    assert labels(two) == ["one", "two"]
    same = labels([record(0), record(1)])
    assert len(set(same)) == 2 and same[0] == "rsl-sql, weak-1 (20261120-010000-000000)"


SYSTEMS = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 6)), max_size=8)


def systems_of(found: list[tuple[int, int]]) -> list[Priced]:
    return [Priced(f"s{n}", Accuracy(right, 10), float(usd)) for n, (right, usd) in enumerate(found)]


def beats(one: Priced, other: Priced) -> bool:
    at_least = one.ex.correct >= other.ex.correct and one.usd <= other.usd
    return at_least and (one.ex.correct > other.ex.correct or one.usd < other.usd)


@given(SYSTEMS)
def test_the_front_is_what_no_other_system_beats(found: list[tuple[int, int]]) -> None:
    systems = systems_of(found)
    brute = {each.name for each in systems if not any(beats(other, each) for other in systems)}
    assert {each.name for each in pareto_front(systems)} == brute


def test_systems_without_a_cost_have_no_chart() -> None:
    assert not list(pareto_blocks(systems_of([(5, 0), (6, 0), (7, 1)])))
    (section,) = pareto_blocks(systems_of([(5, 1), (6, 2), (4, 3)]))
    assert "('s0: 50.00 %, $1.0000', 's1: 60.00 %, $2.0000')" in str(section)


def test_no_axis_has_an_exponent() -> None:
    dear, cheap = (Priced(name, Accuracy(5, 10), usd) for name, usd in (("dear", 12_000.0), ("cheap", 1.0)))
    chart = candidate_chart([("a", "A", curve(2, 1_000_000.0))])
    assert chart is not None
    for text in (str(list(pareto_blocks([dear, cheap]))), str(chart)):
        assert re.search(r"[\d,]{6}", text) and not re.search(r"\de[+-]\d", text)


def curve(n: int, usd: float | None) -> dict[str, Any]:
    share = {"correct": 50, "total": 100, "value": 0.5, "interval": [0.4, 0.6]}
    points = [
        {"k": k, "pass": share, "majority": share, "usd": usd and k * usd, "tokens": None, "calls": 2.0 * k}
        for k in range(1, n + 1)
    ]
    return {"n": n, "curve": points}


def test_two_runs_share_a_unit_that_is_known_of_both() -> None:
    chart = candidate_chart([("a", "A", curve(4, 0.1)), ("b", "B", curve(8, None))])
    assert chart is not None and chart.title == "calls per question"
    assert [len(each.points) for each in chart.lines] == [4, 4, 8, 8]
    assert candidate_chart([("a", "A", None), ("b", "B", None)]) is None
