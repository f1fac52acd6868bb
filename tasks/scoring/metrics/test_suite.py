"""Test-suite accuracy: how many databases had to agree, and what one database alone would have called right."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tasks.core.wording import counts, percent
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, Ratio


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """Databases of a run that was scored on several per question."""

    databases: Mapping[str, int]  # number of databases by database id
    # per scored question, whether its final SQL is right on the first database alone
    first_right: Mapping[str, bool]


@METRICS.register("test_suite")
@metric("Test suite", needs=("measured:test_suite",), order=5)
def test_suite(run: ScoredRun) -> Measurement:
    """Report the number of databases, and the accuracy on the first one alone."""
    found: SuiteRun = run.measured["test_suite"]
    sizes = sorted(found.databases.values())
    alone = Ratio(sum(found.first_right.get(row.question.id, False) for row in run.scored), len(run.scored))
    each = f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"
    line = (
        f"Test suite: {sum(sizes):,} databases for {len(sizes):,} database ids ({each} each); all must agree. On the "
        f"first database alone {percent(alone)} ({counts(alone)}) would be right"
    )
    return Measurement(
        further={"test_suite/databases": sum(sizes), "test_suite/first_database_alone": alone},
        data={"first_database_alone": alone.as_object(), "databases": asdict(found)["databases"]},
        lines=(line,),
    )
