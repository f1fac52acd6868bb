"""Prompts for the golden files: SEA-SQL's, those of open models' layouts, for an opinion, and among candidates."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from flows.evaluate.judging import ask_opinion
from tasks.core.records import ColumnName, ColumnValues, Demonstration, FewShotQuestion, Question
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import NativeLayout, NativePromptSettings, PromptSettings, SeaSqlSettings
from tasks.settings.stages import BiasEliminationSettings
from tasks.stages.candidates import (
    CandidateGroup,
    MergeRequest,
    QueryPair,
    compare_candidates,
    merge_candidates,
)
from tasks.stages.native_sql import native_sql
from tasks.stages.schema_prompt import ExecutedSql
from tasks.stages.sea_sql import NO_QUERY, Mistake, bias_elimination, correct, reflect, zero_shot_sql
from tests.support.stage_bench import DEMONSTRATIONS, PLAIN, QUESTION, Bench

Case = Callable[[Bench], Awaitable[object]]
VALUES = {
    ("museum", "name"): ("Glass House", "Old Mill"),
    ("museum", "opened in"): (1870, 1901),
    ("museum", "city"): ("Lyon", "Ghent"),
    ("order", "total.eur"): (4.0,),
    ("order", "no`te"): ("it's late", "by post"),
    ("guide", "language"): ("fr",),
}
SEA = SeaSqlSettings().prompt
GOOD, WRONG = "SELECT name FROM museum", "SELECT nam FROM museum"


def valued(bench: Bench, prompt: PromptSettings = SEA, *, descriptions: bool = False) -> SchemaView:
    """The view of the schema with values that the question may mean."""
    found = [ColumnValues(ColumnName(*name), values) for name, values in VALUES.items()]
    return SchemaView(bench.schema.with_values(found), prompt, descriptions=descriptions)


def zero_shot(
    question: Question = QUESTION,
    prompt: PromptSettings = SEA,
    *,
    descriptions: bool = False,
    demonstrations: tuple[Demonstration, ...] = (),
) -> Case:
    return lambda bench: zero_shot_sql(
        FewShotQuestion(question, demonstrations),
        valued(bench, prompt, descriptions=descriptions),
        bench.backbone,
    )


def elimination(sql: str, question: Question = QUESTION) -> Case:
    settings = BiasEliminationSettings(rows_shown=2)
    return lambda bench: bias_elimination(
        question, valued(bench), sql, settings, bench.runner, bench.backbone
    )


TWO = SEA.model_copy(update={"sample_rows": 2})
TIMEOUT = "Time-out: the query took too long and was stopped."
FIRST = Mistake(1, WRONG, "Error: no such column: nam")
EXPLAINED = replace(FIRST, reason="The museum's name is in the column name.", times=3)
SECOND = Mistake(2, "SELECT name FROM museum, guide, `order`", TIMEOUT)
BOTH = (EXPLAINED, replace(SECOND, reason="It joins every row of three tables."))


SEA_CASES: dict[str, Case] = {
    "zero_shot_sql.full": zero_shot(),
    "zero_shot_sql.few_shot": zero_shot(demonstrations=DEMONSTRATIONS),
    "zero_shot_sql.bare": zero_shot(PLAIN, SEA.model_copy(update={"sample_rows": 0, "foreign_keys": False})),
    "zero_shot_sql.comment_format": zero_shot(
        prompt=SEA.model_copy(update={"schema_format": "comment", "rules": "all"}), descriptions=True
    ),
    "bias_elimination.rows": elimination(GOOD),
    "bias_elimination.error": elimination(WRONG, PLAIN),
    "execution_reflection.first": lambda bench: reflect(PLAIN, valued(bench, TWO), (FIRST,), bench.backbone),
    "execution_reflection.later": lambda bench: reflect(
        QUESTION, valued(bench, TWO), (EXPLAINED, SECOND), bench.backbone
    ),
    "execution_reflection.no_query": lambda bench: reflect(
        QUESTION, valued(bench, TWO), (Mistake(1, NO_QUERY, "There is no query."),), bench.backbone
    ),
    "execution_correction.first": lambda bench: correct(
        PLAIN, valued(bench, TWO), (replace(EXPLAINED, times=1),), 0, bench.backbone
    ),
    "execution_correction.later": lambda bench: correct(
        QUESTION, valued(bench, TWO), BOTH, 1, bench.backbone
    ),
}


def native(layout: NativeLayout, question: Question = QUESTION, *, descriptions: bool = True) -> Case:
    """A question in a layout, with values that it may mean."""
    prompt = NativePromptSettings.model_validate({"layout": layout})
    return lambda bench: native_sql(
        question, valued(bench, prompt, descriptions=descriptions), layout, bench.backbone
    )


SHOWN = (
    ExecutedSql("SELECT name FROM museum", "name\nToy Hall\n(1 row)"),
    ExecutedSql("SELECT 1", "No rows."),
)
NATIVE_CASES: dict[str, Case] = {
    "opinion.full": lambda bench: ask_opinion(QUESTION, "SQLite", SHOWN, bench.backbone),
    "native_omnisql.full": native("omnisql"),
    "native_omnisql.plain": native("omnisql", PLAIN, descriptions=False),
    "native_arctic.full": native("arctic"),
    "native_xiyan.full": native("xiyan"),
    "native_xiyan.plain": native("xiyan", PLAIN, descriptions=False),
}


EMPTY = "SELECT name FROM museum WHERE id = 9"
GROUPS = (CandidateGroup(GOOD, 5), CandidateGroup(EMPTY, 1))


def shown(bench: Bench) -> SchemaView:
    return SchemaView(bench.schema, descriptions=True).limited_to({"museum"})


def comparison(bench: Bench) -> Awaitable[object]:
    return compare_candidates(
        QUESTION, shown(bench), QueryPair(GOOD, EMPTY, rows=2), bench.runner, bench.backbone
    )


def merge(bench: Bench) -> Awaitable[object]:
    return merge_candidates(
        QUESTION, shown(bench), MergeRequest(GROUPS, rows=2), bench.runner, bench.backbone
    )


CANDIDATE_CASES = {"compare_candidates.plain": comparison, "merge_candidates.plain": merge}
