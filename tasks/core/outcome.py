"""Records of what happened to a question: model calls, stages, turns of an agent, the failure, the outcome. No I/O.

Gold SQL of the evaluated split is in none of them: only `tasks.scoring` reads it. A turn of an agent is a stage: its
record's value is a `Turn`, and its model calls are those of the record.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from tasks.core.records import Link


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call as the API reported them; None where it did not report them (unknown is not zero)."""

    input: int | None = None  # tokens of the prompt
    cached_input: int | None = None  # tokens of the prompt that the provider read from its prompt cache
    output: int | None = None  # tokens of the reply, reasoning included
    reasoning: int | None = None  # tokens of the reply that were reasoning
    cache_write: int | None = None  # tokens of the prompt that the provider wrote to its prompt cache


STANDARD = "standard"
"""Service tier of requests for which no other tier is requested."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a backbone and its outcome, without its text."""

    request: str  # sha256 of the canonical request: the key of the reply cache
    model: str  # the model that answered, as the API names it
    usage: Usage  # tokens
    cached: bool  # whether it was served from the reply cache, at no cost
    # from sending to the full reply, retries included; 0.0 when cached; None if it was made elsewhere and is unknown
    seconds: float | None
    retries: int = 0  # attempts beyond the first
    parse: str = "text"  # how the reply was read: "json", "fenced", "repaired", "text" or "failed"
    cost_usd: float | None = None  # what this call cost: 0.0 when cached; None when unknown
    round: int = 0  # index of the request within the stage's run, from 0
    # "endpoint" if the endpoint reported the cost, "prices" if it follows from the prices of the settings
    cost_source: Literal["prices", "endpoint"] = "prices"
    # what a cached call cost when it was paid; None for other calls, and when unknown
    from_scratch_usd: float | None = None
    # service tier in which it was answered: "standard", "flex", or as the endpoint reports it
    tier: str = STANDARD
    # its price in the standard tier with every input token at the full price; None when cached or unknown
    list_usd: float | None = None
    # what the provider's prompt cache saved of it, negative if writing to the cache cost more than was saved; None when
    # cached or unknown
    prompt_cache_usd: float | None = None

    @property
    def uncached_cost_usd(self) -> float | None:
        """What the call costs where no earlier reply is reused; None when unknown."""
        return self.from_scratch_usd if self.cached else self.cost_usd


FAILED_ATTEMPT = "failed_attempt"
"""Stage that holds the calls of an attempt of a re-run that failed, beside the stages of the answer that was kept."""


@dataclass(frozen=True, slots=True)
class StageRecord:
    """The record of one stage of one question."""

    stage: str  # the stage's name, e.g. "forward_link".
    # the stage's name, numbered where it runs more than once ("self_correction 2"), with the candidate where there
    # are several ("initial_sql (candidate 3)")
    label: str
    value: Any  # what it returned, as plain JSON
    restored: bool  # True when the result came from the stage cache, so none of its calls was made now
    calls: tuple[Call, ...] = ()  # its model calls; for a restored result, those of the run that made it
    notes: tuple[str, ...] = ()  # what was less than ideal: fallbacks, invented names, unreadable replies
    seconds: float | None = 0.0  # wall time of the stage when it ran; None where that is unknown
    error: str = ""  # why it failed, "" when it did not
    replies: int = 0  # replies that it needed; a repeated request counts once
    unreadable: int = 0  # those that could not be read, even after a second request
    fallback: str = ""  # its fallback, as a clause, e.g. "nothing was linked"; "" if there was none.
    skipped: str = ""  # why it did not run, "" when it did

    @property
    def paid_calls(self) -> tuple[Call, ...]:
        """The calls that this run paid for; a restored result and a cached reply were paid by an earlier one."""
        return () if self.restored else tuple(call for call in self.calls if not call.cached)

    @property
    def rounds(self) -> tuple[Call, ...]:
        """One call for each of its requests: a stage that was retried after an error received its first replies again.

        The warehouse does not keep the rounds, so requests are told apart by their keys, too.
        """
        return tuple({(call.round, call.request): call for call in self.calls}.values())


@dataclass(frozen=True, slots=True)
class Candidate:
    """The SQL after a stage, for the per-stage execution accuracy."""

    stage: str  # name of the metric, e.g. "1_preliminary_sql".
    sql: str | None  # the SQL; None where the stage had none to give


FailureKind = Literal[
    "backbone_error",
    "missing_database",
    "missing_gold",
    "database_unavailable",
    "store_error",
    "configuration_error",
    "extension_error",
    "internal_error",
]
"""extension_error: an exception in the user's own pipeline or stage, which the message locates;
missing_gold: parts of the gold SQL are to be given to the pipeline, and the question has none; internal_error: a bug
of this program, whose traceback is in the log."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a question has no answer."""

    kind: FailureKind  # the reason
    stage: str  # the stage in which it failed, "" when before the first
    message: str  # one sentence for the user
    # whether the next run of the same command asks the question again, perhaps after the user has corrected the cause
    retryable: bool
    # whether no other question can be answered either (bad key, exhausted quota, broken prompt)
    fatal: bool = False
    # whether the cause may pass by itself (an endpoint that is down), with nothing for the user to change
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one question in a pipeline."""

    question_id: str  # id of the question
    sql: str | None  # the final SQL; None when there is none
    candidates: tuple[Candidate, ...] = ()  # the SQL after each stage that yields one, in order
    # schema links by name ("forward", "backward", "both"), for the linking metrics
    links: dict[str, Link] = field(default_factory=dict)
    stages: tuple[StageRecord, ...] = ()  # the records of its stages
    failure: Failure | None = None  # why it has no answer, None when it has one
    notes: tuple[str, ...] = ()  # pipeline-level remarks ("selection wrote a third query")
    # how often the question was taken through the pipeline, in this run and those that it re-ran; a re-run that
    # restores every stage does not count. 0: the run was ended before.
    attempts: int = 1
    # which samplings of the model its stages may come from, oldest first; 0 is the first
    samples: tuple[int, ...] = (0,)

    @property
    def retryable(self) -> bool:
        """Whether it is without an answer for a reason that is retryable."""
        return self.failure is not None and self.failure.retryable

    @property
    def paid_calls(self) -> tuple[Call, ...]:
        """The paid calls of its stages."""
        return tuple(call for record in self.stages for call in record.paid_calls)


_OF_CANDIDATE = re.compile(r"(.+) \(candidate (\d+)\)")


def label_of(label: str, candidate: int | None) -> str:
    """Return the label of a stage with the candidate that it helps to write; None: the label alone.

    >>> label_of("initial_sql", 3), split_label("initial_sql (candidate 3)"), split_label("vote")
    ('initial_sql (candidate 3)', ('initial_sql', 3), ('vote', None))
    """
    return label if candidate is None else f"{label} (candidate {candidate})"


def split_label(label: str) -> tuple[str, int | None]:
    """Return a stage's label without its candidate, and the candidate's number from 1, None where it has none."""
    match = _OF_CANDIDATE.fullmatch(label)
    return (match[1], int(match[2])) if match else (label, None)


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
    error: ToolError | None = ""  # None where a trajectory does not say
    sql: str | None = None  # the SQL that it executed or submitted; None for another tool
    id: str = ""  # by which the model's protocol pairs a call with its result


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model with its tool calls."""

    text: str = ""  # what the model wrote beside its tool calls
    calls: tuple[ToolCall, ...] = ()  # its tool calls, in order
    sql: str | None = None  # the answer if the agent is stopped after this turn; None while there is none
    submitted: bool = False  # whether the model submitted its answer in this turn

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
