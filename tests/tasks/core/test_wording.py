"""How numbers are written: what is unknown is never 0."""

from tasks.core import wording
from tasks.scoring.scores import Ratio


def test_a_share_of_nothing_is_a_dash_and_not_zero() -> None:
    assert wording.percent(Ratio(0, 0)) == wording.percent(None) == "–"
    assert wording.percent_and_counts(Ratio(0, 0)) == "none to score"
    assert (wording.percent(Ratio(1030, 1534)), wording.counts(Ratio(1030, 1534))) == (
        "67.14 %",
        "1,030 of 1,534",
    )
    assert (wording.money(None), wording.seconds(None), wording.number(None)) == ("unknown", "–", "unknown")


def test_only_nothing_is_0_percent_and_only_everything_is_100_percent() -> None:
    shares = (Ratio(0, 9), Ratio(1, 40_000), Ratio(39_999, 40_000), Ratio(9, 9), Ratio(sum([0.1] * 10), 1))
    assert [wording.percent(share) for share in shares] == [
        "0.00 %", "<0.01 %", ">99.99 %", "100.00 %", "100.00 %"
    ]  # fmt: skip
    assert wording.percent(Ratio(2_999, 3_000), 1) == ">99.9 %"


def test_a_count_has_all_of_its_digits() -> None:
    share = Ratio(1_234_567, 2_345_678)
    assert wording.counts(share) == "1,234,567 of 2,345,678"
    assert wording.percent_and_counts(share) == "52.63 % (1,234,567/2,345,678)"
    assert wording.counts(Ratio(15.5, 30)) == "15.5 of 30"


def test_what_was_paid_is_never_written_as_nothing() -> None:
    assert [wording.money(usd) for usd in (0.0, 3.4e-6, 0.00004, 0.00005)] == [
        "$0.0000", "<$0.0001", "<$0.0001", "$0.0001"
    ]  # fmt: skip


def test_a_p_value_is_written_on_its_side_of_the_level() -> None:
    from scipy.stats import binomtest

    won, proven = binomtest(25, 67).pvalue, binomtest(45, 119).pvalue
    assert (wording.p_value(won), wording.p_value(proven)) == ("0.0498", "0.00997")
    assert [wording.p_value(p) for p in (0.05, 0.0504, 0.01, 0.0499999)] == [
        "0.05",
        "0.0504",
        "0.01",
        "0.0499999",
    ]
