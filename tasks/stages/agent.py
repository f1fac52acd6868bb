"""The conversation of an agent with its tools: turns, tool calls in two forms, and what was spent of the limits."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from pydantic import ValidationError

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Reply, Request, Tool
from tasks.backbone.replies.json_text import fenced
from tasks.backbone.replies.sql_text import read_sql
from tasks.backbone.replies.thoughts import without_thoughts
from tasks.core.errors import did_you_mean, first_problem
from tasks.core.outcome import StageRecord, ToolCall, Turn
from tasks.core.wording import counted
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.settings.stages import AgentLimits, ToolMode
from tasks.stages import prompts
from tasks.stages.agent_tools import TEMPLATE, TOOLS, Toolbox, ToolResult, offered, parameters
from tasks.stages.schema_prompt import EMPTY
from tasks.stages.stage import stage

MAX_ARGUMENTS = 100_000
"""Characters of a call's arguments that are read; longer ones are refused and kept up to `KEPT`."""
KEPT = 1000
"""Characters of refused arguments, and of a tool's name, that are kept."""

_ID = re.compile(r"[\w-]{1,64}", re.ASCII)


async def execute(
    calls: Sequence[ToolCall], allowed: int, box: Toolbox, runner: DatabaseRunner
) -> tuple[ToolCall, ...]:
    """Execute the calls of a turn one after the other, up to a submission; at most `allowed`, `submit` always.

    Of the calls behind the limit one is kept, which says how many were refused.
    """
    limit = box.limits.calls_per_turn
    executed: list[ToolCall] = []
    for call in calls[:limit]:
        is_refused = len(executed) >= allowed and call.name != "submit"
        result = _REFUSED if is_refused else await _use_tool(call, box, runner)
        executed.append(_with_result(call, result, box.limits.characters))
        if call.name == "submit" and not result.error:
            return tuple(executed)
    if beyond := calls[limit:]:
        text = f"{counted(len(beyond), 'call')} beyond the limit of {limit} in one reply: not executed."
        executed.append(_with_result(beyond[0], ToolResult(text, "refused"), box.limits.characters))
    return tuple(executed)


_REFUSED = ToolResult("The limit of tool calls is reached. Call submit with your best query.", "refused")


def with_ids(calls: Iterable[ToolCall], used: Iterable[str], turn: int) -> tuple[ToolCall, ...]:
    """Return calls with ids by which a protocol can pair them with their results: the model's where they are usable."""
    taken = set(used)
    identified = []
    for position, call in enumerate(calls):
        is_usable = _ID.fullmatch(call.id) and call.id not in taken
        call_id = call.id if is_usable else f"t{turn:04}n{position:03}"
        taken.add(call_id)
        identified.append(replace(call, id=call_id))
    return tuple(identified)


async def _use_tool(call: ToolCall, box: Toolbox, runner: DatabaseRunner) -> ToolResult:
    """Run one tool call; what is wrong with it is a result, which the model reads."""
    if call.name not in TOOLS:
        hint = did_you_mean(call.name[:100], TOOLS)
        return ToolResult(f'There is no tool "{call.name[:100]}". {hint}', "unknown_tool")
    if len(call.arguments) > MAX_ARGUMENTS:
        length = f"{len(call.arguments):,} characters, at most {MAX_ARGUMENTS:,} are read"
        return ToolResult(f"The arguments are too long: {length}.", "wrong_arguments")
    tool = TOOLS[call.name]
    try:
        content = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return ToolResult(f"The arguments are not JSON: {str(error)[:200]}.", "not_json")
    try:
        arguments = tool.arguments.model_validate(content)
    except ValidationError as error:
        return ToolResult(f"The arguments are wrong: {first_problem(error)[:500]}.", "wrong_arguments")
    return await tool.use(box, runner, arguments)


def _with_result(call: ToolCall, result: ToolResult, max_characters: int) -> ToolCall:
    """Return a call with its result, both cut to what is kept."""
    text = result.text
    if len(text) > max_characters:
        text = f"{text[:max_characters]}\n[cut: {len(text):,} characters in all]"
    too_long = result.error and len(call.arguments) > MAX_ARGUMENTS
    arguments = call.arguments[:KEPT] if too_long else call.arguments
    name = call.name[:KEPT]
    return replace(call, name=name, arguments=arguments, result=text, error=result.error, sql=result.sql)


EMPTY_REPLY = "(empty reply)"
"""What stands for an empty reply in later requests: some endpoints refuse an empty message."""
MAX_TEXT = 20_000
"""Characters of what a model writes beside its tool calls that are kept."""


class Mode:
    """A way of calling tools: by the endpoint's protocol."""

    def tools(self, dialect: str) -> tuple[Tool, ...]:
        """Return the tools that a request offers."""
        return offered(dialect)

    def read(self, reply: Reply) -> tuple[str, tuple[ToolCall, ...]]:
        """Return what a reply says, without its thoughts, and its tool calls."""
        return without_thoughts(reply.text).strip()[:MAX_TEXT], reply.calls

    def messages(self, turn: Turn) -> tuple[Message, ...]:
        """Return the messages of a turn for later requests; a turn without tool calls is answered with a reminder."""
        if turn.calls:
            return (Message("assistant", turn.text, calls=turn.calls),)
        return Message("assistant", turn.text or EMPTY_REPLY), Message("user", _block("reminder"))

    def noticed(self, messages: Sequence[Message], notice: str) -> tuple[Message, ...]:
        """Return messages with a notice behind the last result, or behind the last message of the user."""
        *before, last = messages
        if last.calls:
            *calls, call = last.calls
            last = replace(last, calls=(*calls, replace(call, result=f"{call.result}\n\n{notice}")))
        else:
            last = replace(last, content=f"{last.content.rstrip()}\n\n{notice}\n")
        return (*before, last)


class TextMode(Mode):
    """Fenced actions in the model's text: the name of the tool, and its arguments as JSON or its SQL as it is."""

    def tools(self, dialect: str) -> tuple[Tool, ...]:
        """Return none: the opening describes them."""
        return ()

    def read(self, reply: Reply) -> tuple[str, tuple[ToolCall, ...]]:
        """Return the text before the first action, and the actions; what the model writes behind them is left out."""
        without_reasoning = without_thoughts(reply.text)
        actions = [
            ToolCall(name, _arguments(name, content))
            for name, content in fenced(without_reasoning)
            if name in TOOLS
        ]
        before = _ACTION.split(without_reasoning, maxsplit=1)[0] if actions else without_reasoning
        return before.strip()[:MAX_TEXT], tuple(actions)

    def messages(self, turn: Turn) -> tuple[Message, ...]:
        """Return the reply and, as a message of the user, the results of its actions or, without any, a reminder."""
        if not turn.calls:
            return Message("assistant", turn.text or EMPTY_REPLY), Message("user", _block("reminder_text"))
        lines = [turn.text] if turn.text else []
        for call in turn.calls:
            # SQL with a fence in it would end the block of the action
            content = call.sql if call.sql and "```" not in call.sql else call.arguments
            lines.append(f"```{call.name}\n{content}\n```")
        results = _block("results", calls=turn.calls)
        return Message("assistant", "\n".join(lines)), Message("user", results)


MODES: dict[ToolMode, Mode] = {"native": Mode(), "text": TextMode()}
"""The modes by name."""

_ACTION = re.compile(rf"```[ \t]*(?:{'|'.join(TOOLS)})\b", re.IGNORECASE)


def _arguments(name: str, content: str) -> str:
    """Return the arguments of an action as JSON: an object as it is, else the text as the tool's only required one."""
    text = content.strip()
    required = parameters(name)["required"]
    if text.startswith("{") or not text or len(required) != 1:
        return text
    only = parameters(name)["properties"][required[0]]
    return text if only.get("type") != "string" else json.dumps({required[0]: text}, ensure_ascii=False)


def _block(name: str, **variables: object) -> str:
    return prompts.render(TEMPLATE, name, **variables)


@dataclass(frozen=True)
class Conversation:
    """Messages that open a conversation, and the turns since.

    In the cache key of a turn it stands for its digest, which is made of the digest before the last turn and of that
    turn. So a key costs the same in every turn, and what is stored for a turn is that turn alone.
    """

    opening: tuple[Message, ...]
    turns: tuple[Turn, ...]
    digest: str  # sha256 of everything so far
    sql: str | None = None  # the answer while no turn has any, such as a SQL that the opening shows

    @classmethod
    def opened(cls, opening: Sequence[Message], sql: str | None = None) -> "Conversation":
        """Return a conversation without turns."""
        contents = [[message.role, message.content] for message in opening]
        return cls(tuple(opening), (), _sha256([contents, sql]), sql)

    def then(self, turn: Turn) -> "Conversation":
        """Return the conversation with a further turn."""
        return replace(self, turns=(*self.turns, turn), digest=_sha256([self.digest, asdict(turn)]))

    @property
    def identity(self) -> Mapping[str, Any]:
        """The digest."""
        return {"digest": self.digest}

    @property
    def answer(self) -> str | None:
        """The answer if no further turn follows."""
        return self.turns[-1].sql if self.turns else self.sql

    @property
    def submitted(self) -> bool:
        """Whether the model has submitted its answer."""
        return bool(self.turns) and self.turns[-1].submitted

    @property
    def calls(self) -> int:
        """How many tool calls were executed."""
        return sum(call.error != "refused" for turn in self.turns for call in turn.calls)

    def best_sql(self, calls: Sequence[ToolCall]) -> str | None:
        """Return the best query so far and of further calls: the last with rows, else the last that ran, else the last.

        A plan (EXPLAIN) is no answer.
        """
        executed = [
            call
            for call in chain(*(turn.calls for turn in self.turns), calls)
            if call.sql and call.error != "refused" and not is_plan(call.sql)
        ]
        ran = [call for call in executed if not call.error]
        with_rows = [call for call in ran if not (call.result or "").startswith(EMPTY)]
        best = with_rows or ran or executed
        return best[-1].sql if best else self.sql


_BEFORE = re.compile(r"(?:[\s(]|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
"""Blanks, parentheses and comments before a SQL."""


def is_plan(sql: str) -> bool:
    """Return whether a SQL asks for the plan of a query and not for its result.

    >>> is_plan("/* why */ explain SELECT 1"), is_plan("SELECT 'EXPLAIN'")
    (True, False)
    """
    begun = _BEFORE.match(sql)
    return sql[begun.end() if begun else 0 :][: len("EXPLAIN")].upper() == "EXPLAIN"


def _sha256(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@stage(prompts=(TEMPLATE,))
async def turn(
    conversation: Conversation,
    notice: str,
    allowed: int,
    box: Toolbox,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Turn:
    """Ask the model once, and execute the tools that it calls.

    `notice` tells the model about limits that are near. A reply without tool calls submits the query that it holds, if
    that does not fail. Any other one is answered with a reminder.
    """
    mode = MODES[box.mode]
    reply = await backbone.complete(
        request_of(conversation, notice, mode, box.view.dialect_name),
        lambda reply: not conversation.turns or _acts(mode, reply),
    )
    text, written = mode.read(reply)
    used = {call.id for earlier in conversation.turns for call in earlier.calls}
    calls = await execute(with_ids(written, used, len(conversation.turns) + 1), allowed, box, runner)
    for call in calls:
        if call.error:
            backbone.note(f"{call.name[:40]}: {call.error.replace('_', ' ')}")
    if calls:
        submission = calls[-1].sql if _submits(calls[-1]) else None
        return Turn(text, calls, submission or conversation.best_sql(calls), submission is not None)
    written_sql = _query_in(text)
    if written_sql and (await runner.run(written_sql, rows=0)).ok:
        backbone.note("the query was submitted as text, without a call of submit")
        return Turn(text, (), written_sql, submitted=True)
    return Turn(text, (), conversation.answer or written_sql)


def request_of(conversation: Conversation, notice: str, mode: Mode, dialect: str) -> Request:
    """Return the request of the next turn; all messages before the last turn are known from the request before."""
    *before, last = (conversation.opening, *map(mode.messages, conversation.turns))
    messages: Sequence[Message] = (*chain(*before), *last)
    known = len(messages) - len(last) if conversation.turns else 0
    if notice:
        messages = mode.noticed(messages, notice)
    return Request(tuple(messages), tools=mode.tools(dialect), known=known)


def _acts(mode: Mode, reply: Reply) -> bool:
    """Return whether a reply holds a tool call or a query: without any, the model does not know how to act."""
    text, calls = mode.read(reply)
    return bool(calls or _query_in(text))


_WRITTEN_CALL = re.compile(r"[=:.>\[\]] ?[\"']?run_sql\b|\brun_sql\(")
"""A call in a text, as models write it for a server that does not read it: `<function=run_sql>` (Qwen3-Coder at Ollama,
issue 18530), `functions.run_sql:0` (Kimi), `[run_sql(sql=...)]` (Llama 4), `<｜tool▁sep｜>run_sql` (DeepSeek)."""


def _query_in(text: str) -> str | None:
    """Return the query that answers in a text; None if there is none, or only that of a tool call."""
    return None if _WRITTEN_CALL.search(text) else read_sql(text)


def _submits(call: ToolCall) -> bool:
    return call.name == "submit" and not call.error


NEAR_TURNS = 2
"""Turns left from which on the model is told so."""
NEAR_CALLS = 5
"""The same of tool calls."""
NEAR_BUDGET = 0.8
"""Share of the tokens or the money, spent, from which on it is told so."""


@dataclass(frozen=True)
class Spending:
    """What is spent of the limits of one question."""

    limits: AgentLimits
    turns: int  # turns taken
    calls: int  # tool calls executed
    tokens: int  # tokens of all model calls for the question, as far as they were reported
    usd: float  # what these calls cost without the reply cache, as far as that is known

    @classmethod
    def of(
        cls, conversation: Conversation, records: Sequence[StageRecord], limits: AgentLimits
    ) -> "Spending":
        """Return what a conversation has spent, with the stages before it."""
        calls = [call for record in records for call in record.rounds]
        tokens = sum((call.usage.input or 0) + (call.usage.output or 0) for call in calls)
        usd = sum(call.uncached_cost_usd or 0.0 for call in calls)
        return cls(limits, len(conversation.turns), conversation.calls, tokens, usd)

    @property
    def reached(self) -> str:
        """Which limit is reached, so that no further turn begins; "" for none."""
        limits = self.limits
        if self.turns >= limits.turns:
            return f"the limit of {limits.turns} turns was reached"
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"the limit of {limits.tokens:,} tokens was reached"
        if limits.usd is not None and self.usd >= limits.usd:
            return f"the limit of ${limits.usd:g} was reached"
        return ""

    @property
    def allowed(self) -> int:
        """How many tool calls the next turn may execute."""
        return min(self.limits.calls_per_turn, max(0, self.limits.calls - self.calls))

    @property
    def notice(self) -> str:
        """What the model is told about limits that are near; "" for nothing."""
        limits = self.limits
        turns, calls = limits.turns - self.turns, limits.calls - self.calls
        near_turns = turns if turns <= NEAR_TURNS else None
        near_calls = max(0, calls) if calls <= NEAR_CALLS else None
        near_budget = any(
            limit is not None and spent >= NEAR_BUDGET * limit
            for spent, limit in ((self.tokens, limits.tokens), (self.usd, limits.usd))
        )
        if near_turns is None and near_calls is None and not near_budget:
            return ""
        about = {"turns": near_turns, "calls": near_calls, "budget": near_budget}
        return prompts.render(TEMPLATE, "notice", **about).strip()
