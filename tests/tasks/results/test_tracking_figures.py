"""The Pareto front beside brute force over all pairs, and the chart of the candidates of two runs."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tasks.results.curves import Priced, candidate_chart, pareto_blocks, pareto_front
from tasks.scoring.report import Accuracy

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


def test_two_runs_share_a_unit_that_is_known_of_both() -> None:
    chart = candidate_chart([("a", "A", curve(4, 0.1)), ("b", "B", curve(8, None))])
    assert chart is not None and chart.title == "calls per question"
    assert [len(each.points) for each in chart.lines] == [4, 4, 8, 8]
    assert candidate_chart([("a", "A", None), ("b", "B", None)]) is None
