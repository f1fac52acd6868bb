"""The chart of the candidates of two runs."""

from typing import Any

from tasks.results.curves import candidate_chart


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
