"""Opinions of a model on answers, and those on the answers of a run: counts, cost, and how they are stored.

They are never part of a score.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from flows.gold.review import review_item
from tasks.core.errors import BackboneError
from tasks.core.outcome import Call, StageRecord
from tasks.core.records import Execution
from tasks.scoring.cost import Cost, total_cost
from tasks.scoring.report import Opinion, QuestionScore, Ratio, is_right
from tasks.scoring.statistics.detection import accuracy_in_words
from tasks.settings.home import Home
from tasks.tracking.measured_judges import measured_accuracy
from tasks.tracking.mlflow.ended_runs import log_values
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.mlflow.traces import log_opinions
from tasks.tracking.review.queue import ReviewItem
from tasks.tracking.warehouse.runs import Warehouse
from tasks.tracking.warehouse.stored import StoredRun


@dataclass(kw_only=True)
class Opinions:
    """Opinions on answers."""

    backbone: str  # name of the model
    rows: tuple[QuestionScore, ...] = field(repr=False)  # the answers that are to be judged
    timeout_s: float = 30.0  # limit per query, in seconds
    judge: str = ""  # key of the judge (`tasks.tracking.measured_judges`)
    opinions: dict[str, Opinion] = field(default_factory=dict)  # by question id
    failures: dict[str, str] = field(default_factory=dict)  # why there is no opinion, by question id
    calls: list[Call] = field(default_factory=list, repr=False)  # every call
    # results that the model saw, by question id: the answer's, then the gold's
    results: dict[str, list[Execution]] = field(default_factory=dict, repr=False)
    unsent: int = 0  # failures whose request had no reply, so that the same command repeats it
    fatal: BackboneError | None = None  # error that ended the judging; None if all answers were sent

    @property
    def cost(self) -> Cost:
        """What the opinions cost; what the cache served is counted apart."""
        return total_cost([StageRecord("opinion", "opinion", None, False, tuple(self.calls))])


@dataclass(kw_only=True)
class Judged(Opinions):
    """Opinions on the answers of a run."""

    run: StoredRun

    @property
    def table(self) -> Mapping[tuple[bool, bool], int]:
        """Number of opinions by whether EX and by whether the model calls the answer right."""
        counts = {(ex, model): 0 for ex in (True, False) for model in (True, False)}
        for row in self.rows:
            if opinion := self.opinions.get(row.question.id):
                counts[is_right(row.final, self.run.run.rule), opinion.right] += 1
        return counts

    @property
    def agreement(self) -> Ratio:
        """Opinions that agree with execution accuracy, of all opinions."""
        table = self.table
        return Ratio(table[True, True] + table[False, False], sum(table.values()))

    @property
    def other(self) -> tuple[str, ...]:
        """Ids of answers that are wrong by EX and right in the model's opinion: perhaps the gold is wrong."""
        rule = self.run.run.rule
        return tuple(
            row.question.id
            for row in self.rows
            if (found := self.opinions.get(row.question.id)) and found.right and not is_right(row.final, rule)
        )

    @property
    def accuracy(self) -> Ratio | None:
        """Measured accuracy of the judge; None if it was not measured."""
        return next((each.accuracy for each in self.opinions.values()), None)

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON; what is not known is null."""
        table = self.table
        return {
            "run_id": self.run.run.run_id,
            "backbone": self.backbone,
            "rule": self.run.run.rule,
            "answers": len(self.rows),
            "judged": len(self.opinions),
            "agrees_with_ex": self.agreement.as_object(),
            "accuracy_is_measured": self.accuracy is not None,
            "measured_accuracy": self.accuracy and self.accuracy.as_object(),
            "ex_wrong": {"model_right": table[False, True], "model_wrong": table[False, False]},
            "ex_right": {"model_right": table[True, True], "model_wrong": table[True, False]},
            "wrong_by_ex_right_by_model": list(self.other),
            "without_opinion": self.failures,
            "cost": asdict(self.cost),
        }


def review_items(judged: Judged) -> list[ReviewItem]:
    """Return the questions whose answer is wrong by EX and right in the model's opinion, for a review queue."""
    items, disputed = [], set(judged.other)
    for row in judged.rows:
        if row.question.id in disputed:
            opinion, (answer, gold) = judged.opinions[row.question.id], judged.results[row.question.id]
            why = f"{opinion.model} calls the answer right: {opinion.reason} ({accuracy_in_words(opinion.accuracy)})"
            proposed = (row.outcome.sql or "", answer)
            items.append(review_item(row.question, (row.gold_sql, gold), proposed, why))
    return items


def name_accuracy(found: Opinions, home: Home) -> None:
    """Add the judge's measured accuracy to each opinion."""
    accuracy = measured_accuracy(home, found.judge)
    found.opinions = {name: replace(each, accuracy=accuracy) for name, each in found.opinions.items()}


def keep(judged: Judged, home: Home) -> str:
    """Write the opinions into the warehouse and their figures to MLflow; return why MLflow lacks them, or ""."""
    facts = judged.as_object()
    Warehouse(home.warehouse).add_opinions(judged.run.run.run_id, judged.opinions, facts)
    cost, table = judged.cost, judged.table
    values: Mapping[str, float | None] = {
        "judge/answers": len(judged.opinions),
        "judge/agrees_with_ex": judged.agreement.value,
        "judge/measured_accuracy": judged.accuracy.value if judged.accuracy else None,
        "judge/wrong_by_ex_right_by_model": table[False, True],
        "judge/calls": cost.calls,
        "judge/cost_usd": cost.cost_usd,
    }
    known = {name: float(value) for name, value in values.items() if value is not None}
    tags = {"judge": f"{judged.backbone}; {accuracy_in_words(judged.accuracy)}"}
    store, mlflow_run = find_store(home), judged.run.record.mlflow_run_id
    problem = log_values(store, mlflow_run, known, tags)
    return problem or log_opinions(store, str(mlflow_run), judged.opinions)
