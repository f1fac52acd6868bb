"""SEA-SQL's prompts, for the golden files."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from tasks.database.column_values import with_values
from tasks.database.rendering import render
from tasks.database.schema import Schema
from tasks.records import ColumnName, ColumnValues, Question
from tasks.settings.pipeline import BiasEliminationSettings, PromptSettings, SemanticPromptSettings
from tasks.stages.sea_sql.bias_elimination import bias_elimination
from tasks.stages.sea_sql.execution_adjustment import NO_QUERY, Mistake, Shown, correct, reflect
from tasks.stages.sea_sql.zero_shot_sql import zero_shot_sql
from tests.support.stage_bench import PLAIN, QUESTION, Bench

Case = Callable[[Bench], Awaitable[object]]
VALUES = {
    ("museum", "name"): ("Glass House", "Old Mill"),
    ("museum", "opened in"): (1870, 1901),
    ("museum", "city"): ("Lyon", "Ghent"),
    ("order", "total.eur"): (4.0,),
    ("order", "no`te"): ("it's late", "by post"),
    ("guide", "language"): ("fr",),
}
SEA = SemanticPromptSettings()
GOOD, WRONG = "SELECT name FROM museum", "SELECT nam FROM museum"


def valued(bench: Bench) -> Schema:
    """The schema with values that the question may mean."""
    return with_values(
        bench.schema, [ColumnValues(ColumnName(*name), values) for name, values in VALUES.items()]
    )


def zero_shot(
    question: Question = QUESTION, prompt: PromptSettings = SEA, *, descriptions: bool = False
) -> Case:
    return lambda bench: zero_shot_sql(question, valued(bench), prompt, descriptions, bench.backbone)


def elimination(sql: str, question: Question = QUESTION) -> Case:
    settings = BiasEliminationSettings(rows_shown=2)
    return lambda bench: bias_elimination(
        question, valued(bench), SEA, False, sql, settings, bench.runner, bench.backbone
    )


def shown(bench: Bench, question: Question = QUESTION) -> Shown:
    """What execution adjustment shows of a question."""
    schema = valued(bench)
    parts = render(schema, "values", sample_rows=2, foreign_keys=True, descriptions=False)
    return Shown(question, parts, schema.dialect_name)


TIMEOUT = "Time-out: the query took too long and was stopped."
FIRST = Mistake(1, WRONG, "Error: no such column: nam")
EXPLAINED = replace(FIRST, reason="The museum's name is in the column name.", times=3)
SECOND = Mistake(2, "SELECT name FROM museum, guide, `order`", TIMEOUT)
BOTH = (EXPLAINED, replace(SECOND, reason="It joins every row of three tables."))


SEA_CASES: dict[str, Case] = {
    "zero_shot_sql.full": zero_shot(),
    "zero_shot_sql.bare": zero_shot(PLAIN, SemanticPromptSettings(sample_rows=0, foreign_keys=False)),
    "zero_shot_sql.comment_format": zero_shot(
        prompt=SemanticPromptSettings(schema_format="comment"), descriptions=True
    ),
    "bias_elimination.rows": elimination(GOOD),
    "bias_elimination.error": elimination(WRONG, PLAIN),
    "execution_reflection.first": lambda bench: reflect(shown(bench, PLAIN), (FIRST,), bench.backbone),
    "execution_reflection.later": lambda bench: reflect(shown(bench), (EXPLAINED, SECOND), bench.backbone),
    "execution_reflection.no_query": lambda bench: reflect(
        shown(bench), (Mistake(1, NO_QUERY, "There is no query."),), bench.backbone
    ),
    "execution_correction.first": lambda bench: correct(
        shown(bench, PLAIN), (replace(EXPLAINED, times=1),), 0, bench.backbone
    ),
    "execution_correction.later": lambda bench: correct(shown(bench), BOTH, 1, bench.backbone),
}
