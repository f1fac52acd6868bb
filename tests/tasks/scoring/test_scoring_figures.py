from tasks.scoring.errors import DacCounts
from tasks.scoring.metrics.figures import figures_of
from tasks.scoring.papers.dac import DacStatistics, EntityScore, RevisionCount, SqlParts
from tasks.scoring.papers.sea_sql import AdjustmentStatistics, RoundCount, SeaStatistics
from tasks.scoring.report import Ratio


def parts(right: int) -> SqlParts:
    return SqlParts(Ratio(right, 10), Ratio(right, right), DacCounts(1, 2, 3, 4))


def test_a_run_without_dac_and_sea_sql_has_no_figures_of_theirs() -> None:
    assert figures_of(None, None) == ()


def test_every_figure_of_dac_has_its_name_and_what_does_not_apply_is_absent() -> None:
    tables = EntityScore(Ratio(3, 4), Ratio(3, 6))
    revisions = (RevisionCount("entities", "accepted", 2),)
    found = DacStatistics(10, tables, None, Ratio(5, 10), None, parts(4), parts(6), revisions)
    figures = {figure.name: figure.value for figure in figures_of(found, None)}
    assert figures["dac/linking_tables/precision"] == Ratio(3, 4)
    assert figures["dac/linking_tables/f1"] == 0.6
    assert figures["dac/before/skeleton"] == Ratio(4, 10)
    assert figures["dac/after/errors_execution"] == 4
    assert figures["dac/corrections/entities_accepted"] == 2
    assert not [name for name in figures if name.startswith(("dac/linking_columns", "dac/right_of"))]


def test_execution_adjustment_says_how_many_questions_took_how_many_rounds() -> None:
    adjusted = AdjustmentStatistics(
        Ratio(3, 10), Ratio(1, 10), (RoundCount(1, 2), RoundCount(10, 1)), fixed=1, broken=0
    )
    figures = {figure.name: figure.value for figure in figures_of(None, SeaStatistics(10, None, adjusted))}
    assert figures["sea/execution_adjustment/adjusted"] == 3
    assert figures["sea/execution_adjustment/rounds_10"] == 1
    assert figures["sea/execution_adjustment/failing_after"] == Ratio(1, 10)
    assert not [name for name in figures if name.startswith("sea/bias_elimination")]
