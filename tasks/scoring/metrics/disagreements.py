"""What the choice of a rule changes: questions on which rules disagree, rewrites of rule `spider`, test suites."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tasks.core.wording import and_more, counted, counts, percent, shorten
from tasks.documents.model import Table
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement, Ratio
from tasks.sql.rewriting import SPIDER_OPERATORS, postprocessed

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
