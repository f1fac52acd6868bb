"""The agent's prompts, for the golden files."""

from collections.abc import Awaitable, Callable
from typing import Any

from tasks.core.outcome import ToolCall, Turn
from tasks.core.records import Question
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import AgentSettings
from tasks.settings.stages import ToolLimits, ToolMode
from tasks.stages import prompts
from tasks.stages.agent import Conversation, turn
from tasks.stages.agent_tools import TEMPLATE, Toolbox, offered
from tests.support.stage_bench import PLAIN, QUESTION, Bench

Case = Callable[[Bench], Awaitable[object]]
FAILED = "SELECT nam FROM museum"
CALLS = (
    ToolCall(
        "run_sql", '{"sql": "SELECT nam FROM museum"}', "Error: no such column: nam", "failed", FAILED, "a"
    ),
    ToolCall("tables", "", "museum(id, name)", id="b"),
)


def box(bench: Bench, mode: ToolMode = "native", **limits: Any) -> Toolbox:
    """The tools of the bench's database, without an index of its values."""
    view = SchemaView(bench.schema, AgentSettings().prompt, descriptions=True)
    return Toolbox(view, None, ToolLimits(**limits), mode)


def opened(box: Toolbox, question: Question = QUESTION, **shown: Any) -> Conversation:
    """A conversation as the pipeline opens it."""
    dialect = box.view.dialect_name
    tools = offered(dialect) if box.mode == "text" else ()
    variables = {
        "dialect": dialect,
        "question": question,
        "parts": None,
        "reduced": False,
        "sql": None,
        "rules": "all",
    }
    return Conversation.opened(prompts.messages(TEMPLATE, **variables | {"tools": tools} | shown))


def opening(mode: ToolMode, *, schema: bool = False, sql: str | None = None) -> Case:
    def case(bench: Bench) -> Awaitable[object]:
        own = box(bench, mode)
        parts = own.view.render() if schema else None
        conversation = opened(own, parts=parts, reduced=sql is not None, sql=sql)
        return turn(conversation, "", 8, own, bench.runner, bench.backbone)

    return case


def later(mode: ToolMode, *turns: Turn, **left: Any) -> Case:
    def case(bench: Bench) -> Awaitable[object]:
        own = box(bench, mode)
        conversation = opened(own, PLAIN)
        for each in turns:
            conversation = conversation.then(each)
        about = {"turns": None, "calls": None, "budget": False} | left
        notice = prompts.render(TEMPLATE, "notice", **about).strip() if left else ""
        return turn(conversation, notice, 8, own, bench.runner, bench.backbone)

    return case


AGENT_CASES: dict[str, Case] = {
    "agent.question": opening("native"),
    "agent.schema": opening("native", schema=True),
    "agent.link": opening("native", schema=True, sql=FAILED),
    "agent.actions": opening("text"),
    "agent.results": later("text", Turn("I look first.", CALLS)),
    "agent.last_turn": later("text", Turn("", CALLS[1:]), turns=1),
    "agent.limits_near": later("text", Turn("", CALLS[1:]), turns=2, calls=3, budget=True),
    "agent.no_call_is_left": later("text", Turn("", CALLS[1:]), calls=0),
    "agent.text_alone": later("native", Turn("I do not know."), turns=2),
    "agent.text_without_action": later("text", Turn()),
}
