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
