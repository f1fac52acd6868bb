"""The bill of a run in its document."""

from dataclasses import replace

from tasks.pages.run_tables import bill_of_run
from tasks.results.build_record import record_of
from tasks.scoring.cost import Cost
from tests.tasks.results.samples import make_report, make_run


def test_the_bill_goes_from_the_list_price_to_what_was_paid() -> None:
    cost = Cost(
        calls=10,
        cached_calls=2,
        list_usd=1.0,
        prompt_cache_usd=-0.125,
        tier_usd=0.5,
        cost_usd=0.625,
        reply_cache_usd=0.25,
        from_scratch_usd=0.875,
        flex_calls=8,
    )
    report = replace(make_report(), cost=cost)
    table = bill_of_run(record_of(make_run(), report))
    assert table is not None and table.rows[-1] is not None
    assert table.rows[-1][1:] == ("$1.0000", "-$0.1250", "$0.5000", "$0.6250", "$0.2500", "$0.8750")
    right = report.score.correct
    assert "tier flex: 8 of 10 paid calls" in str(table.caption)
    assert f"per right answer: ${0.875 / right:,.4f} from scratch ($0.8750 / {right})" in str(table.caption)


def test_a_free_run_and_one_of_unknown_cost_have_no_bill() -> None:
    for cost in (Cost(), Cost(calls=5, list_usd=0.0, reply_cache_usd=0.0)):
        assert bill_of_run(record_of(make_run(), replace(make_report(), cost=cost))) is None
