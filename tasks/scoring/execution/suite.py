"""Questions with several golds or databases: a prediction is right by any gold on which all databases agree.

The databases of a test suite have one schema and different rows, so that a wrong SQL which returns the gold's rows by
chance on one of them does not on another (Zhong et al. 2020, "Semantic Evaluation for Text-to-SQL with Distilled Test
Suites").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.layouts import GoldResults
from tasks.benchmarks.rows import read_text
from tasks.core.errors import DataError
from tasks.core.wording import and_more, counted, shorten
from tasks.database.database import Database, locate
from tasks.database.engine import engine_of
from tasks.database.location import Location, unreadable
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import AcceptedResult, SubsetGold, read_gold_csv
from tasks.scoring.scores import Verdict

MAX_LISTED = 5
MAX_NAMED = 3


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
    """Judge the candidates of one question; a candidate is right under a rule if it is right on all databases.

    A candidate that is wrong under every rule is not executed on the remaining databases. If the gold does not finish
    on one database, every candidate that is executed there is wrong, and the benchmark is at fault. `gold_sql` is ""
    where there are accepted results only. Accepted results are of the first database, and no other one is then used.
    """
    first = await judge.verdicts(databases[0], gold_sql, candidates, accepted=accepted)
    verdicts = dict(first)
    further = databases[1:] if accepted is None else ()
    for database in further:
        still_right = {
            name: candidates[name] for name, verdict in verdicts.items() if any(verdict.correct.values())
        }
        if not still_right:
            break
        for name, verdict in (await judge.verdicts(database, gold_sql, still_right)).items():
            verdicts[name] = _both_databases(verdicts[name], verdict)
    return SuiteVerdicts(verdicts, first)


def _both_databases(earlier: Verdict, later: Verdict) -> Verdict:
    correct = {rule: right and later.correct.get(rule, False) for rule, right in earlier.correct.items()}
    gold_status = earlier.gold_status if earlier.gold_status != "ok" else later.gold_status
    return replace(earlier, correct=correct, gold_status=gold_status)


def open_suites(benchmark: Benchmark, databases: Mapping[str, Database]) -> dict[str, tuple[Database, ...]]:
    """Return, by id of a database, that database and the further databases of its test suite."""
    locations = {name: [locate(str(path)) for path in benchmark.suite_paths(name)] for name in databases}
    problems: list[str] = []
    for name, further in locations.items():
        reasons = [_why_foreign(databases[name], location) for location in further]
        problems += [reason for reason in reasons if reason]
    if problems:
        lines = filter(None, (*problems[:MAX_LISTED], and_more(problems, MAX_LISTED)))
        listed = "".join(f"\n  {line}" for line in lines)
        raise DataError(
            f"{counted(len(problems), 'file')} beside a database cannot be part of its test suite, on all of which a "
            f"prediction has to be right:{listed}\nMove them to another folder, or judge without the test suite: "
            "--set benchmark.test_suite=false"
        )
    return {
        name: (database, *(_open_like(database, location) for location in locations[name]))
        for name, database in databases.items()
    }


def _why_foreign(database: Database, location: Location) -> str:
    """Return why a file is no database with the tables and columns of `database`; "" if it is one."""
    try:
        structure = engine_of(location).read(location, database.id, sample_rows=0)
    except DataError as error:
        return str(error)
    existing = {
        (table.name.lower(), column.name.lower()) for table in structure.tables for column in table.columns
    }
    lacking = [
        f"{table.name}.{column.name}"
        for table in database.schema.tables
        for column in table.columns
        if not table.view and (table.name.lower(), column.name.lower()) not in existing
    ]
    return f"{location} lacks {shorten(lacking, MAX_NAMED)}" if lacking else ""


def _open_like(database: Database, location: Location) -> Database:
    """Return a database of a suite with the schema of the first one, which is not read again."""
    engine = engine_of(location)
    try:
        return replace(
            database, location=location, state=engine.state(location), digest=engine.digest(location)
        )
    except OSError as error:
        raise unreadable(location, error) from error


async def judge_golds(
    judge: Judge,
    databases: Sequence[Database],
    golds: Sequence[str],
    candidates: Mapping[str, str | None],
    *,
    accepted: SubsetGold | None = None,
) -> SuiteVerdicts:
    """Judge the candidates of one question by each of its golds, on each of its databases.

    A candidate is right if there is a gold by which it is right on all databases. A gold that does not finish makes no
    candidate right; `gold_status` reports it only if none of the golds finishes. There is at least one database. There
    is at least one gold: "" where there are only `accepted` results, which are those of the first database.
    """
    by_gold = [await judge_suite(judge, databases, gold, candidates, accepted=accepted) for gold in golds]
    return SuiteVerdicts(
        all={name: reduce(either, (verdicts.all[name] for verdicts in by_gold)) for name in candidates},
        first={name: reduce(either, (verdicts.first[name] for verdicts in by_gold)) for name in candidates},
    )


def either(first: Verdict, second: Verdict) -> Verdict:
    """Return the verdict by two golds, under each rule right if one of them says so; the rest is that of the first."""
    rules = dict.fromkeys([*first.correct, *second.correct])
    correct = {rule: first.correct.get(rule, False) or second.correct.get(rule, False) for rule in rules}
    gold_status = first.gold_status if second.gold_status != "ok" else "ok"
    return replace(first, correct=correct, gold_status=gold_status)


def read_accepted(results: GoldResults) -> SubsetGold:
    """Read the accepted results of one question."""
    accepted = []
    for path, columns in zip(results.files, results.columns, strict=True):
        text = read_text(path)
        if not text.strip():
            raise DataError(f"{path} is empty: a result has at least a line with its columns.")
        rows = read_gold_csv(text)
        last_needed = max(columns, default=0)
        # A result without rows shows no width: it is taken to have every column that is named.
        width = min((len(row) for row in rows), default=last_needed + 1)
        if columns and last_needed >= width:
            raise DataError(
                f"{path} has {counted(width, 'column')}, but condition_cols names column {last_needed} (from 0)."
            )
        accepted.append(AcceptedResult(rows, columns))
    return SubsetGold(tuple(accepted), results.ignore_order)
