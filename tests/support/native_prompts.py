"""The layouts of open models, and the question for an opinion, for the golden files."""

from collections.abc import Awaitable, Callable

from flows.evaluate.judging import ask_opinion
from tasks.core.records import Question
from tasks.settings.pipeline import NativeLayout, NativePromptSettings
from tasks.stages.native_sql import native_sql
from tasks.stages.schema_prompt import ExecutedSql
from tests.support.sea_prompts import valued
from tests.support.stage_bench import PLAIN, QUESTION, Bench

Case = Callable[[Bench], Awaitable[object]]


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
