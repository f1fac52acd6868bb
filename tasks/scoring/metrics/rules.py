"""What the choice of a rule changes: questions on which rules disagree, rewrites of rule `spider`, Soft-F1, suites.

Soft-F1 is measured inside the sandboxed workers, so this module imports nothing heavy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tasks.core.wording import and_more, counted, counts, percent, shorten
from tasks.documents.model import Table
from tasks.scoring.execution.rules import Row, comparable_rows
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement, Ratio
from tasks.sql.rewriting import SPIDER_OPERATORS, postprocessed

if TYPE_CHECKING:
    from tasks.database.database import Database
    from tasks.database.sandbox.session import SqlSession
    from tasks.database.sandbox.workers import SqlWorkers

MAX_IDS = 10
MAX_ROWS = 100


@metric("The rules disagree", unit="questions", better=None, order=20)
def disagreements(run: ScoredRun) -> Measurement:
    """List the questions whose final SQL is right under some comparison rules and wrong under others."""
    differing: list[dict[str, Any]] = []
    for row in run.scored:
        right = [rule for rule, is_right in row.final.correct.items() if is_right]
        wrong = [rule for rule, is_right in row.final.correct.items() if not is_right]
        if right and wrong:
            differing.append({"question_id": row.question.id, "right": right, "wrong": wrong})
    ids = [question["question_id"] for question in differing]
    line = f"The rules disagree on {counted(len(ids), 'question')}: {shorten(ids, MAX_IDS)}"
    left_out = and_more(differing, MAX_ROWS)
    table = Table(
        "Where the rules disagree",
        ("question", "right under", "wrong under"),
        tuple(
            (question["question_id"], ", ".join(question["right"]), ", ".join(question["wrong"]))
            for question in differing[:MAX_ROWS]
        ),
        f"{left_out}: `--json` lists all" if left_out else "",
    )
    return Measurement(
        further={"questions/rules_disagree": len(differing)},
        data=differing,
        lines=(line,) if differing else (),
        tables=(table,) if differing else (),
    )


@metric("Changed as Spider's evaluator does", unit="questions", better=None, order=15)
def spider_postprocessed(run: ScoredRun) -> Measurement | None:
    """List the questions whose SQL is executed in another form by the rule "spider"; None if another one is used."""
    if run.rule != "spider":
        return None
    changed = {}
    for row in run.scored:
        schema = run.schemas.get(row.question.database_id)
        changes = changes_of(row.outcome.sql, schema.dialect) if schema and row.outcome.sql else ()
        if changes:
            changed[row.question.id] = "; ".join(changes)
    line = (
        f"Under the rule spider, {counted(len(changed), 'SQL')} executed as the official evaluator writes it "
        f"(operators joined, text after the first ; left out): {shorten(list(changed), MAX_IDS)}"
    )
    return Measurement(
        by_question=changed,
        further={"questions/spider_postprocessed": len(changed)},
        data=changed,
        lines=(line,) if changed else (),
    )


def changes_of(sql: str, dialect: str) -> tuple[str, ...]:
    """Return what the rule "spider" changes in a SQL before it is executed, except that it strips DISTINCT.

    >>> changes_of("SELECT a FROM t WHERE b > = 2; and more", "sqlite")
    ('"> =" became ">="', 'the text after the first ; was left out')
    """
    joined = sql
    changes = []
    for apart, together in SPIDER_OPERATORS:
        if apart in sql:
            joined = joined.replace(apart, together)
            changes.append(f'"{apart}" became "{together}"')
    if postprocessed(sql, dialect) != joined:
        changes.append("the text after the first ; was left out")
    return tuple(changes)


def overlap(gold: Sequence[Row], predicted: Sequence[Row]) -> float:
    """Return Soft-F1 of BIRD mini-dev, as published: the overlap of cells of rows at the same position, in 0..1.

    Rows are de-duplicated and then compared by position: the same rows in another order can score 0.

    >>> overlap([(1, 2)], [(1, 3)])
    0.5
    >>> overlap([(1,), (2,)], [(2,), (1,)])
    0.0
    """
    if not gold and not predicted:
        return 1.0
    gold_rows = list(dict.fromkeys(comparable_rows(gold)))
    predicted_rows = list(dict.fromkeys(comparable_rows(predicted)))
    shared = predicted_only = gold_only = 0.0
    for expected, row in zip(gold_rows, predicted_rows, strict=False):
        width = len(expected)
        shared += sum(cell in expected for cell in row) / width
        predicted_only += sum(cell not in expected for cell in row) / width
        gold_only += sum(cell not in row for cell in expected) / width
    gold_only += max(len(gold_rows) - len(predicted_rows), 0)
    predicted_only += max(len(predicted_rows) - len(gold_rows), 0)
    precision = shared / (shared + predicted_only) if shared + predicted_only else 0.0
    recall = shared / (shared + gold_only) if shared + gold_only else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def soft_f1_in_worker(session: "SqlSession", gold_sql: str, sql: str, timeout_s: float) -> float | None:
    """Execute gold and prediction inside a worker and return Soft-F1; None if the gold does not finish."""
    gold = session.run_known(gold_sql, timeout_s=timeout_s)
    result = session.run_known(sql, timeout_s=timeout_s)
    if not gold.ok:
        return None
    return overlap(gold.rows, result.rows) if result.ok else 0.0


async def measure_soft_f1(
    workers: "SqlWorkers", database: "Database", gold_sql: str, sql: str | None, *, timeout_s: float
) -> float | None:
    """Return Soft-F1 of one question: 0 without SQL, or with one that does not finish; None if the gold does not."""
    from tasks.database.sandbox.workers import WorkerLost

    if not sql or sql.isspace():
        return 0.0
    try:
        job = (soft_f1_in_worker, database, gold_sql, sql, timeout_s)
        value: float | None = await workers.call(*job, timeout_s=2 * timeout_s)  # two queries
    except WorkerLost:  # by the gold or by the prediction
        finishes = (await workers.execute(database, gold_sql, rows=0, timeout_s=timeout_s)).ok
        return 0.0 if finishes else None
    return value


@metric("Soft-F1", order=60)
def soft_f1(run: ScoredRun) -> Measurement | None:
    """Report the mean Soft-F1 of the scored questions if the settings request it: every query is executed again."""
    values: Mapping[str, float | None] | None = run.measured.get("soft_f1")
    if values is None:
        return None
    total = Ratio(sum(values.get(row.question.id) or 0.0 for row in run.scored), len(run.scored))
    questions = counted(len(run.scored), "question")
    line = f"Soft-F1: {percent(total)} (mean over {questions}; published rule, never to rank by)"
    data = {"sum": total.correct, "total": total.total, "value": total.value}
    headline = {"Soft-F1 in %": Ratio(100 * total.correct, len(run.scored))} if run.scored else {}
    return Measurement(total, by_question=values, data=data, headline=headline, lines=(line,))


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """Databases of a run that was scored on several per question."""

    databases: Mapping[str, int]  # number of databases by database id
    # per scored question, whether its final SQL is right on the first database alone
    first_right: Mapping[str, bool]


@metric("Test suite", order=5)
def test_suite(run: ScoredRun) -> Measurement | None:
    """Report the number of databases, and the accuracy on the first one alone."""
    suite: SuiteRun | None = run.measured.get("test_suite")
    if suite is None:
        return None
    sizes = sorted(suite.databases.values())
    alone = Ratio(sum(suite.first_right.get(row.question.id, False) for row in run.scored), len(run.scored))
    size = f"{sizes[0]:,}" if sizes[0] == sizes[-1] else f"{sizes[0]:,} to {sizes[-1]:,}"
    line = (
        f"Test suite: {counted(sum(sizes), 'database')} for {counted(len(sizes), 'database id')} ({size} each); all "
        f"must agree. On the first database alone {percent(alone)} ({counts(alone)}) would be right"
    )
    return Measurement(
        further={"test_suite/databases": sum(sizes), "test_suite/first_database_alone": alone},
        data={"first_database_alone": asdict(alone), "databases": asdict(suite)["databases"]},
        lines=(line,),
    )
