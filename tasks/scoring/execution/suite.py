"""Test-suite accuracy: where a question has several databases, a prediction is right if all of them agree.

The databases have one schema and different rows, so that a wrong SQL which returns the gold's rows by chance on one of
them does not on another (Zhong et al. 2020, "Semantic Evaluation for Text-to-SQL with Distilled Test Suites").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.database.database import Database
from tasks.database.engine import engine_of
from tasks.database.location import Location, unreadable
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.subset import SubsetGold
from tasks.scoring.report import Verdict


@dataclass(frozen=True, slots=True)
class SuiteVerdicts:
    """Verdicts of one question's candidates, by name."""

    all: Mapping[str, Verdict]  # on all databases; status, message, rows and time are those of the first one
    first: Mapping[str, Verdict]  # on the first database alone


async def judge_suite(
    judge: Judge,
    databases: Sequence[Database],
    gold_sql: str,
    candidates: Mapping[str, str | None],
    *,
    accepted: SubsetGold | None = None,
) -> SuiteVerdicts:
    """Judge the candidates of one question on each of its databases; under a rule, all databases must agree.

    A candidate that no rule calls right any more is not executed on the databases that are left. A gold that does not
    finish on one of them is a fault of the benchmark and makes every candidate wrong that got as far as that one. The
    gold is "" where there are accepted results only. These are of the first database.
    """
    first = await judge.verdicts(databases[0], gold_sql, candidates, accepted=accepted)
    found = dict(first)
    for database in databases[1:] if accepted is None else ():
        standing = {
            name: candidates[name] for name, verdict in found.items() if any(verdict.correct.values())
        }
        if not standing:
            break
        for name, verdict in (await judge.verdicts(database, gold_sql, standing)).items():
            found[name] = _both(found[name], verdict)
    return SuiteVerdicts(found, first)


def _both(before: Verdict, now: Verdict) -> Verdict:
    """Return the verdict of the databases before and this one."""
    correct = {rule: right and now.correct.get(rule, False) for rule, right in before.correct.items()}
    gold_status = before.gold_status if before.gold_status != "ok" else now.gold_status
    return replace(before, correct=correct, gold_status=gold_status)


def open_like(database: Database, location: Location) -> Database:
    """Return a database of the same schema at another location."""
    engine = engine_of(location)
    try:
        return replace(
            database, location=location, state=engine.state(location), digest=engine.digest(location)
        )
    except OSError as error:
        raise unreadable(location, error) from error
