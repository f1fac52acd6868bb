"""Turns of an agent: the score if it is stopped after each, their cost, and what its tool calls came to."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.core.outcome import FAILED_ATTEMPT, NOT_SUBMITTED, TURN, StageRecord, split_label, turn_step
from tasks.core.wording import DASH, counts, interval, money, number, percent, percent_and_counts, shorten
from tasks.documents.model import Table
from tasks.scoring.cost import total
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement, QuestionScore, Ratio, Value, flips, is_right, wilson
from tasks.sql.same_query import query_key

MAX_POINTS = 50
"""Turns of which the curve has a point each; after them it has the last turn only."""
TABLE_TURNS = (1, 2, 3, 5, 8, 13, 21)
"""Turns that a table shows, beside the last one."""
MAX_IDS, MAX_REASONS = 5, 2


@dataclass(frozen=True, slots=True)
class Agent:
    """What an agent did about one question."""

    turns: tuple[Mapping[str, Any], ...]  # the value of each turn's record, a `Turn` as plain JSON
    # of each turn what a run without a cache would pay for it, by unit; None is unknown
    costs: tuple[Mapping[str, float | None], ...]
    # the same of each stage with model calls before the first turn, such as the link that the conversation starts with
    opening: tuple[Mapping[str, float | None], ...]
    right: tuple[bool, ...]  # whether the SQL after each turn is right
    final: bool  # whether the final answer is right
    dialect: str  # SQL dialect of the database; "" (standard SQL) if its schema cannot be read

    def right_after(self, turn: int) -> bool:
        """Return whether it is right if it is stopped after a turn; behind its last turn, its last SQL counts."""
        return bool(self.right) and self.right[min(turn, len(self.right)) - 1]

    def spent(self, turn: int, unit: str) -> float | None:
        """Return the cost up to a turn."""
        return total([cost[unit] for cost in (*self.opening, *self.costs[:turn])])

    @property
    def lost(self) -> bool:
        """Whether the SQL after some turn was right and the final answer is not."""
        return any(self.right) and not self.final

    @property
    def calls(self) -> list[Mapping[str, Any]]:
        """Its tool calls."""
        return [call for turn in self.turns for call in turn["calls"]]

    @property
    def repeated(self) -> int:
        """Number of tool calls with the same query as an earlier one.

        Submitting a SQL that was executed is no repetition.
        """
        # the last call of a turn that submits is the submission
        calls = [call for turn in self.turns for call in turn["calls"][: -1 if turn["submitted"] else None]]
        executed = [query_key(call["sql"], self.dialect) for call in calls if call["sql"]]
        return len(executed) - len(set(executed))


@metric("Turns", unit="questions", better=None, order=24)
def turns(run: ScoredRun) -> Measurement | None:
    """Report the curve of execution accuracy over turns, with cost, tool errors, repetitions and lost answers.

    All shares are over the scored questions, including those without a turn: a question that failed has no right SQL.
    In the curve, a question that has ended keeps its last SQL, and `fixed` and `broken` compare with the turn before.
    The cost up to a turn is the mean over the questions with a turn, with the model calls before their first turn; None
    (unknown) if that of any call is unknown.
    """
    by_question = {row.question.id: _agent(row, run) for row in run.scored}
    lost_ids = [id_ for id_, agent in by_question.items() if agent.lost]
    agents = tuple(by_question.values())
    lengths = [len(agent.turns) for agent in agents]
    longest = max(lengths, default=0)
    if not longest:  # no turn, or every first one failed
        return None
    mean_turns = Ratio(sum(lengths), len(agents))
    # why agents submitted no answer; agents whose trajectory was read from a file have no such note
    notes = [note for row in run.scored for note in row.outcome.notes if note.startswith(NOT_SUBMITTED)]
    reasons = [note.removeprefix(NOT_SUBMITTED) for note in notes]
    calls = [call for agent in agents for call in agent.calls]
    costs = [cost for agent in agents for cost in agent.costs]
    # A call has the kind of its error, "" for none, None where a trajectory does not say.
    errors_unknown = any(call["error"] is None for call in calls)
    errors = Counter(call["error"] for call in calls if call["error"])
    queries = sum(bool(call["sql"]) for call in calls)
    shown_turns = dict.fromkeys((*range(1, min(longest, MAX_POINTS) + 1), longest))
    data: dict[str, Any] = {
        "turns": asdict(mean_turns),
        "most": longest,
        "submitted": _share(any(turn["submitted"] for turn in agent.turns) for agent in agents),
        "not_submitted": dict(Counter(reasons).most_common()),
        "lost": _share(agent.lost for agent in agents) | {"questions": lost_ids},
        "tool_calls": len(calls),
        "tool_errors": None if errors_unknown else asdict(Ratio(errors.total(), len(calls))),
        "tool_errors_by_kind": None if errors_unknown else dict(errors.most_common()),
        "repeated_queries": asdict(Ratio(sum(agent.repeated for agent in agents), queries)),
        "input_tokens_per_turn": _mean([cost["input"] for cost in costs]),
        "output_tokens_per_turn": _mean([cost["output"] for cost in costs]),
        "curve": [_point(agents, turn) for turn in shown_turns],
    }
    stepped = {"ex_after": "value", "usd_after": "usd", "tokens_after": "tokens"}
    series = {f"turns/{name}": [point[key] for point in data["curve"]] for name, key in stepped.items()}
    further: dict[str, Value] = {
        "turns/mean": mean_turns,
        "turns/most": longest,
        "turns/lost": Ratio(len(lost_ids), len(agents)),
        "turns/submitted": Ratio.of(data["submitted"]),
        "turns/tool_calls": len(calls),
        "turns/repeated_queries": Ratio.of(data["repeated_queries"]),
    }
    if not errors_unknown:
        further["turns/tool_errors"] = Ratio.of(data["tool_errors"])
    return Measurement(
        by_question={id_: len(agent.turns) for id_, agent in by_question.items()},
        further=further,
        series={name: values for name, values in series.items() if None not in values},
        data=data,
        lines=turn_lines(data),
    )


def turn_table(data: Mapping[str, Any]) -> Table:
    """Return a table of `data`, the metric's object in the summary: the score if the agent stops after some turns."""
    counted_headers = ("fixed", "broken", "still running")
    header = ("stopped after turn", "EX", "right", "95 % interval", *counted_headers, "cost per question")
    rows = (
        (
            str(point["turn"]),
            percent(Ratio.of(point)),
            counts(Ratio.of(point)),
            interval(*point["interval"]) if point["interval"] else DASH,
            number(point["fixed"], missing=""),
            number(point["broken"], missing=""),
            number(point["running"]),
            cost_in_words(point),
        )
        for point in shown_points(data)
    )
    caption = "fixed, broken: against the turn before; the last SQL of a question that has ended counts"
    return Table("Execution accuracy if the agent is stopped after a turn", header, tuple(rows), caption)


def shown_points(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the points of the curve that a table shows."""
    *before, last = data["curve"]
    return [*(point for point in before if point["turn"] in TABLE_TURNS), last]


def curve_in_words(data: Mapping[str, Any]) -> str:
    """Return the curve as a sentence."""
    points = (f"{point['turn']}: {percent(Ratio.of(point))}" for point in shown_points(data))
    return f"EX if the agent is stopped after turn {', '.join(points)}"


def cost_in_words(point: Mapping[str, Any]) -> str:
    """Return what a question cost up to a point of the curve: money, tokens where it was free of charge, or unknown.

    >>> cost_in_words({"usd": 0.0, "tokens": None}), cost_in_words({"usd": 0.0, "tokens": 12})
    ('$0.0000', '12 tokens')
    """
    usd, tokens = point["usd"], point["tokens"]
    if usd is None and tokens is None:
        return "unknown"
    return money(usd) if usd or tokens is None else f"{tokens:,.0f} tokens"


def _agent(row: QuestionScore, run: ScoredRun) -> Agent:
    """Return what the agent did about a question; of several agents (candidates), only the first one's turns."""
    opening, records = [], []
    for record in row.outcome.stages:
        _, candidate = split_label(record.label)  # None where there is only one agent
        if candidate not in (None, 1):
            continue
        if record.stage == TURN and record.value:
            records.append(record)
        elif record.stage not in (TURN, FAILED_ATTEMPT) and record.rounds and not records:
            opening.append(record)
    schema = run.schemas.get(row.question.database_id)
    return Agent(
        turns=tuple(record.value for record in records),
        costs=tuple(map(_cost, records)),
        opening=tuple(map(_cost, opening)),
        right=tuple(
            is_right(row.stages.get(turn_step(turn)), run.rule) for turn in range(1, len(records) + 1)
        ),
        final=is_right(row.final, run.rule),
        dialect=schema.dialect if schema else "",
    )


def _cost(record: StageRecord) -> dict[str, float | None]:
    calls = record.rounds
    if not calls:
        return dict.fromkeys(("input", "output", "tokens", "usd"))
    sent = total([call.usage.input for call in calls])
    received = total([call.usage.output for call in calls])
    usd = total([call.uncached_cost_usd for call in calls])
    return {"input": sent, "output": received, "tokens": total([sent, received]), "usd": usd}


def _point(agents: Sequence[Agent], turn: int) -> dict[str, Any]:
    """Return the curve at a turn: the agents' answers if all of them had been stopped after it."""
    right = [agent.right_after(turn) for agent in agents]
    before = [agent.right_after(turn - 1) for agent in agents] if turn > 1 else None
    fixed, broken = flips(before, right) if before else (None, None)
    with_turns = [agent for agent in agents if agent.turns]
    spent = {unit: total([agent.spent(turn, unit) for agent in with_turns]) for unit in ("usd", "tokens")}
    return {
        "turn": turn,
        **asdict(Ratio(sum(right), len(agents))),
        "interval": list(wilson(sum(right), len(agents))),
        "fixed": fixed,
        "broken": broken,
        "running": sum(len(agent.turns) >= turn for agent in agents),
        **{unit: None if value is None else value / len(with_turns) for unit, value in spent.items()},
    }


def turn_lines(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the lines that the terminal's summary prints of `data`, the metric's object in the JSON summary."""
    mean = Ratio.of(data["turns"])
    lost = data["lost"]
    ids = f" ({shorten(lost['questions'], MAX_IDS)})" if lost["questions"] else ""
    sent, received = (_tokens(data[f"{name}_tokens_per_turn"]) for name in ("input", "output"))
    reasons = [f"{count:,} ({why})" for why, count in data["not_submitted"].items()]
    not_submitted = f"; not submitted: {shorten(reasons, MAX_REASONS)}" if reasons else ""
    errors = data["tool_errors"]
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in (data["tool_errors_by_kind"] or {}).items())
    failed = "unknown how many failed" if errors is None else f"{counts(Ratio.of(errors))} failed"
    after_last_turn = data["curve"][-1]
    return (
        f"Turns: {mean.value or 0:,.2f} per question ({mean.correct:,.0f} / {mean.total:,.0f}), at most "
        f"{data['most']:,}; questions that submitted an answer: {counts(Ratio.of(data['submitted']))}{not_submitted}",
        f"Had it right and lost it: {percent_and_counts(Ratio.of(lost))}{ids}",
        f"Tool calls: {data['tool_calls']:,}; {failed}{f' ({kinds})' if kinds else ''}; repeated queries: "
        f"{counts(Ratio.of(data['repeated_queries']))}",
        f"Tokens per turn: {sent} in, {received} out; cost per question: {cost_in_words(after_last_turn)}",
    )


def _share(values: Iterable[bool]) -> dict[str, Any]:
    answers = list(values)
    return asdict(Ratio(sum(answers), len(answers)))


def _mean(values: Sequence[float | None]) -> dict[str, Any] | None:
    tokens = total(values)
    return None if tokens is None else asdict(Ratio(tokens, len(values)))


def _tokens(mean: Mapping[str, Any] | None) -> str:
    return "unknown" if mean is None or mean["value"] is None else f"{mean['value']:,.0f}"
