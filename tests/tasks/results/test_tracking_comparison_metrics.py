"""Every metric of two runs beside each other, from the summaries that the warehouse keeps."""

from typing import Any

import pytest

from tasks.documents.markdown import markdown
from tasks.pages.comparison import comparison_document
from tasks.results.compare import compare
from tasks.results.comparison import MetricRow, as_table, metric_rows
from tasks.results.run_record import RunRecord, json_of
from tasks.scoring.metric import METRICS
from tasks.scoring.report import Ratio
from tests.tasks.results.comparison_samples import two_runs

SHARE = {"correct": 6, "total": 20, "value": 0.3}
BETTER = {"correct": 9, "total": 20, "value": 0.45}


def summarised(a: dict[str, Any], b: dict[str, Any]) -> tuple[RunRecord, RunRecord]:
    first, second = two_runs(3, 1, 20)
    return first.model_copy(update={"metrics": a}), second.model_copy(update={"metrics": b})


@pytest.mark.parametrize(
    ("a", "b", "lines"),
    [
        (
            {"exact_match": SHARE | {"by_hardness": {"easy": {"correct": 1, "total": 2, "value": 0.5}}}},
            {"exact_match": BETTER | {"by_hardness": {}}},
            [
                "Exact set match | 30.00 % (6 of 20) | 45.00 % (9 of 20) | +15.00 | higher",
                "Exact set match: of hardness easy | 50.00 % (1 of 2) | – | – | higher",
            ],
        ),
        (
            {"errors": {"no_answer": 2, "timeout": 0}, "unanswered": ["1", "2"]},
            {"errors": {"no_answer": 0, "timeout": 0}, "unanswered": []},
            [
                "Causes of wrong answers: no_answer | 2 | 0 | −2 | lower",
                "Questions without SQL | 2 | 0 | −2 | lower",
            ],
        ),
        (
            {"soft_f1": {"sum": 5.0, "total": 20, "value": 0.25}},
            {},
            ["Soft-F1 | 25.00 % (5 of 20) | – | – | higher"],
        ),
        (
            {"efficiency": {"measured": 4, "ves": {"mean": 50.0}, "r_ves": None}},
            {"efficiency": {"measured": 5, "ves": {"mean": 52.5}, "r_ves": None}},
            [
                "Efficiency: measured | 4 | 5 | +1 | higher",
                "Efficiency: ves mean | 50.00 | 52.50 | +2.50 | higher",
            ],
        ),
        ({"selection": None}, {}, []),
        (
            {"selection": {"oracle": SHARE, "chosen_right": {"correct": 0, "total": 0, "value": None}}},
            {"selection": {"oracle": BETTER, "chosen_right": {"correct": 0, "total": 0, "value": None}}},
            ["Selection: either is right (oracle) | 30.00 % (6 of 20) | 45.00 % (9 of 20) | +15.00 | higher"],
        ),
        (
            {"links_resolved": {"forward": {"nsr": SHARE}}},
            {"links_resolved": {"forward": {"nsr": BETTER}}},
            [
                "Linking, gold resolved through aliases: forward NSR | 30.00 % (6 of 20) | 45.00 % (9 of 20) | "
                "+15.00 | higher"
            ],
        ),
    ],
)
def test_a_row_is_a_value_of_a_metric_that_applies_to_one_of_the_runs(
    a: dict[str, Any], b: dict[str, Any], lines: list[str]
) -> None:
    table = as_table(metric_rows(*summarised(a, b)))
    assert [" | ".join(row or ()) for row in table.rows] == lines


def test_every_registered_metric_has_a_row_once_a_summary_has_it() -> None:
    stored = summarised(dict.fromkeys(METRICS.names(), SHARE), {})
    assert sorted(row.name for row in metric_rows(*stored)) == sorted(METRICS.names())


def test_a_metric_of_a_users_file_is_shown_without_its_file() -> None:
    own = {"correct": 17, "total": 2, "value": 8.5, "unit": "characters", "better": "lower"}
    a, b = summarised({"sql_length": own}, {"sql_length": own | {"correct": 15, "value": 7.5}})
    settings = {"benchmark": {"metrics": ["/gone/mine.py:sql_length"]}}
    (row,) = metric_rows(a.model_copy(update={"settings": settings}), b)
    assert row.cells == ("sql_length", "8.50", "7.50", "−1.00", "lower")


def test_a_mean_of_nothing_is_a_dash_and_never_zero() -> None:
    row = MetricRow("m", "", "", "Length", "characters", "lower", Ratio(0, 0), Ratio(30, 4))
    assert row.cells == ("Length", "\N{EN DASH}", "7.50", "\N{EN DASH}", "lower")


def test_the_object_has_numerators_denominators_and_the_difference() -> None:
    found = json_of(compare(*summarised({"exact_match": SHARE}, {"exact_match": BETTER})))["metrics"]
    assert found == [
        {
            "name": "exact_match",
            "part": "",
            "words": "",
            "unit": "share",
            "title": "Exact set match",
            "better": "higher",
            "a": SHARE,
            "b": BETTER,
            "difference": pytest.approx(0.15),
        }
    ]


def test_runs_that_scored_different_questions_have_no_metrics_beside_each_other() -> None:
    a, b = summarised({"errors": {"wrong_table": 41}}, {"errors": {"wrong_table": 10}})
    assert compare(a, b).metrics and "-31" in markdown(comparison_document(compare(a, b))).replace("−", "-")
    few = compare(a, b.model_copy(update={"rows": b.rows[:10]}))
    assert few.metrics == ()
    text = markdown(comparison_document(few))
    assert "41" not in text and "Metrics: left out" in text


def test_values_that_are_equal_in_both_runs_may_be_left_out_and_are_counted() -> None:
    rows = metric_rows(
        *summarised({"soft_f1": SHARE, "exact_match": SHARE}, {"soft_f1": SHARE, "exact_match": BETTER})
    )
    assert len(as_table(rows).rows) == 2
    table = as_table(rows, equal=False)
    assert [row[0] for row in table.rows] == ["Exact set match"]
    assert table.caption.endswith("; 1 value equal in both")
