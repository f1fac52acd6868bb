"""Turns of an agent: a model that calls tools until it submits a query. No I/O.

A trajectory is the sequence of an agent's turns about one question. A turn is a stage: its record's value is a `Turn`,
and its model calls are those of the record.
"""

from dataclasses import dataclass
from typing import Literal

ToolError = Literal["", "unknown_tool", "not_json", "wrong_arguments", "failed", "refused"]
"""Why a tool call gave no result: no tool of that name; arguments that are not JSON, or of other types than the tool's
schema; an error of the tool, such as SQL that the database refuses; a call beyond a limit. "": it gave one."""

TURN = "turn"
"""Stage that a turn is, and the beginning of the names of the SQL after each: "turn_1" and so on."""
NOT_SUBMITTED = "nothing was submitted: "
"""Begins the note on a question whose agent did not submit; the reason follows, for example a limit."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool in a turn, and its result."""

    name: str  # as the model wrote it
    arguments: str  # as the model wrote them: JSON, or text that is not
    result: str | None = None  # what the model was told; None where that is not known
    error: ToolError | None = ""  # None where an imported trajectory does not say
    sql: str | None = None  # the SQL that it executed or submitted; None for another tool
    id: str = ""  # by which the model's protocol pairs a call with its result


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model with its tool calls.

    Attributes:
        text: what the model wrote beside its tool calls.
        calls: its tool calls, in order.
        sql: the answer if the agent is stopped after this turn; None while there is none.
        submitted: whether the model submitted its answer in this turn.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    sql: str | None = None
    submitted: bool = False

    @property
    def errors(self) -> int:
        """How many of its tool calls failed."""
        return sum(bool(call.error) for call in self.calls)


def turn_step(number: int) -> str:
    """Return the name of the SQL after a turn beside a pipeline's steps.

    >>> turn_step(3), is_turn("turn_3"), is_turn("1_initial_sql")
    ('turn_3', True, False)
    """
    return f"{TURN}_{number}"


def is_turn(step: str) -> bool:
    """Return whether a step is the SQL after a turn, not one of the pipeline's own steps."""
    return step.startswith(f"{TURN}_") and step.removeprefix(f"{TURN}_").isdigit()
