"""Execution of tool calls as a model wrote them: whatever is wrong with one is answered to the model."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pydantic import ValidationError

from tasks.core.errors import did_you_mean, first_problem
from tasks.core.trajectory import ToolCall
from tasks.core.wording import counted
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.stages.agent.toolbox import TOOLS, Result, Toolbox

LONGEST_ARGUMENTS = 100_000
"""Characters of a call's arguments that are read; longer ones are refused and kept up to `KEPT`."""
KEPT = 1000
"""Characters of refused arguments, and of a tool's name, that are kept."""

_ID = re.compile(r"[\w-]{1,64}", re.ASCII)


async def execute(
    calls: Sequence[ToolCall], allowed: int, box: Toolbox, runner: DatabaseRunner
) -> tuple[ToolCall, ...]:
    """Execute the calls of a turn one after the other, up to a submission.

    Args:
        calls: as the model wrote them.
        allowed: how many may be executed; `submit` always may.
        box: what the tools read.
        runner: executes SQL on the question's database.

    Returns:
        The calls with results. Of those behind the limit one is kept, which says how many were refused.
    """
    kept = calls[: box.limits.calls_per_turn]
    done: list[ToolCall] = []
    for call in kept:
        over = len(done) >= allowed and call.name != "submit"
        result = _REFUSED if over else await _used(call, box, runner)
        done.append(_answered(call, result, box.limits.characters))
        if call.name == "submit" and not result.error:
            return tuple(done)
    if beyond := calls[len(kept) :]:
        text = f"{counted(len(beyond), 'call')} beyond the limit of {len(kept)} in one reply: not executed."
        done.append(_answered(beyond[0], Result(text, "refused"), box.limits.characters))
    return tuple(done)


_REFUSED = Result("The limit of tool calls is reached. Call submit with your best query.", "refused")


def with_ids(calls: Iterable[ToolCall], used: Iterable[str], turn: int) -> tuple[ToolCall, ...]:
    """Return calls with ids by which a protocol can pair them with their results: the model's where they are usable."""
    taken, named = set(used), []
    for place, call in enumerate(calls):
        id = call.id if _ID.fullmatch(call.id) and call.id not in taken else f"t{turn:04}n{place:03}"
        taken.add(id)
        named.append(replace(call, id=id))
    return tuple(named)


async def _used(call: ToolCall, box: Toolbox, runner: DatabaseRunner) -> Result:
    if call.name not in TOOLS:
        hint = did_you_mean(call.name[:100], TOOLS)
        return Result(f'There is no tool "{call.name[:100]}". {hint}', "unknown_tool")
    if len(call.arguments) > LONGEST_ARGUMENTS:
        found = f"{len(call.arguments):,} characters, at most {LONGEST_ARGUMENTS:,} are read"
        return Result(f"The arguments are too long: {found}.", "wrong_arguments")
    tool = TOOLS[call.name]
    try:
        content = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        return Result(f"The arguments are not JSON: {str(error)[:200]}.", "not_json")
    try:
        arguments = tool.arguments.model_validate(content)
    except ValidationError as error:
        return Result(f"The arguments are wrong: {first_problem(error)[:500]}.", "wrong_arguments")
    return await tool.use(box, runner, arguments)


def _answered(call: ToolCall, result: Result, longest: int) -> ToolCall:
    text, said = result.text, call.arguments
    if len(text) > longest:
        text = f"{text[:longest]}\n[cut: {len(text):,} characters in all]"
    if result.error and len(said) > LONGEST_ARGUMENTS:
        said = said[:KEPT]
    return replace(
        call, name=call.name[:KEPT], arguments=said, result=text, error=result.error, sql=result.sql
    )
