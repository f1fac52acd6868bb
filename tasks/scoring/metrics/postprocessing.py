"""What the rule "spider" changes in predictions before it executes them, as the official evaluator does."""

from tasks.core.wording import counted, shorten
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement
from tasks.sql.rewriting import SPIDER_OPERATORS, postprocessed

MOST_IDS = 10


@METRICS.register("spider_postprocessed")
@metric("Changed as Spider's evaluator does", unit="questions", better=None, order=15)
def spider_postprocessed(run: ScoredRun) -> Measurement | None:
    """List the questions whose SQL is executed in another form under "spider"; None if that is no headline rule."""
    if run.rule != "spider":
        return None
    found = {}
    for row in run.scored:
        schema = run.schemas.get(row.question.database_id)
        if schema and row.outcome.sql and (changes := changes_of(row.outcome.sql, schema.dialect)):
            found[row.question.id] = "; ".join(changes)
    line = (
        f"Under the rule spider, {counted(len(found), 'SQL')} executed as the official evaluator writes it (operators "
        f"joined, text after the first ; left out): {shorten(list(found), MOST_IDS)}"
    )
    return Measurement(
        by_question=found,
        further={"questions/spider_postprocessed": len(found)},
        data=found,
        lines=(line,) if found else (),
    )


def changes_of(sql: str, dialect: str) -> tuple[str, ...]:
    """Say what is changed in a SQL, DISTINCT apart.

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
