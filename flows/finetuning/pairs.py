"""Training pairs for SEA-SQL's eliminator: preliminary SQL of a training split, compared with its gold SQL."""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from prefect import Flow, flow
from prefect.runtime import flow_run
from pydantic import TypeAdapter

from flows.finetuning.settings import Evaluated, held_out_file
from flows.questions.pool import Answers, answer_all
from flows.questions.preparation import Preparation
from flows.questions.session import Session
from flows.runtime.control import Control
from tasks.core.errors import ConfigurationError
from tasks.core.outcome import Outcome
from tasks.core.records import ColumnValues, Question
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema_view import SchemaView
from tasks.finetuning.evaluation import RULE
from tasks.finetuning.pairs import (
    TrainingPair,
    deduplicated,
    hold_out,
    make_pair,
    without_likeness,
    write_pairs,
)
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.report import is_right
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.pipeline import SeaSqlSettings
from tasks.stages.sea_sql.elimination_prompt import elimination_prompt

_VALUES = TypeAdapter(tuple[ColumnValues, ...])


@dataclass
class Pairs:
    """Counts of training pairs."""

    questions: int = 0  # training questions whose database is present
    # of those, the ones left out because an evaluated split has their text or their gold
    like_evaluated: int = 0
    without_sql: int = 0  # questions without a preliminary SQL, failed ones included
    gold_faults: int = 0  # questions whose gold SQL does not run
    duplicates: int = 0  # pairs left out because their prompt occurred before
    right: int = 0  # pairs whose preliminary SQL is right
    pairs: int = 0  # pairs to train on
    held_out: int = 0  # pairs for the evaluation
    failed: int = 0  # questions that can be retried
    calls: int = 0  # paid model calls


@dataclass(frozen=True)
class SplitPairs:
    """Pairs of one training split, with what was counted of it."""

    pairs: tuple[TrainingPair, ...] = field(repr=False)
    counts: Pairs


PairsFlow = Flow[[EvaluationSettings, Evaluated], Coroutine[Any, Any, SplitPairs]]


def pairs_flow(control: Control, preparation: Preparation) -> PairsFlow:
    """Return the flow `finetune-dataset` of a prepared training split."""

    @flow(
        name="finetune-dataset",
        flow_run_name="training pairs {settings.benchmark.name} | {settings.backbone.name}",
        validate_parameters=False,
        persist_result=False,
    )
    async def finetune_dataset(settings: EvaluationSettings, evaluated: Evaluated) -> SplitPairs:
        """Make the training pairs of one training split; an interrupted run can continue.

        Raises:
            CrosscheckError: what is wrong and what to do about it.
            Interrupted: the user stopped it; what was answered is persisted.
        """
        control.begin_flow_run(str(flow_run.id))
        gold = preparation.benchmark.gold
        questions = tuple(question for question in preparation.executable if question.id in gold)
        evaluated.refuse(preparation.benchmark.questions)
        allowed = without_likeness(questions, gold, evaluated.questions, evaluated.gold_fingerprints)
        found = Pairs(len(questions), like_evaluated=len(questions) - len(allowed))
        async with Session.open(settings, control) as session:
            maker = PairMaker(preparation, session.tools.workers)
            runner = session.runner(preparation.inputs)
            answers = await answer_all(allowed, runner, control, maker.add)
        if answers.fatal and not maker.pairs:
            raise ConfigurationError(answers.fatal)
        made = [maker.pairs[question.id] for question in allowed if question.id in maker.pairs]
        found.gold_faults = maker.gold_faults
        _count(found, answers)
        await session.recorded(answers.task_runs)
        return SplitPairs(tuple(made), found)

    return finetune_dataset


def write_splits(splits: Sequence[SplitPairs], output: Path, held_out: float) -> Pairs:
    """Write the pairs of all training splits, and a share of them to a file beside it; return the counts."""
    made = [pair for split in splits for pair in split.pairs]
    unique = deduplicated(made)
    sides = hold_out(unique, held_out)
    write_pairs(output, sides.training)
    if held_out:
        write_pairs(held_out_file(output), sides.held_out)
    summed = {one.name: sum(getattr(split.counts, one.name) for split in splits) for one in fields(Pairs)}
    return Pairs(
        **{
            **summed,
            "duplicates": len(made) - len(unique),
            "right": sum(pair.right for pair in unique),
            "pairs": len(sides.training),
            "held_out": len(sides.held_out),
        }
    )


@dataclass
class PairMaker:
    """Builder of training pairs from answered questions."""

    preparation: Preparation  # the training split
    workers: SqlWorkers  # processes that run SQL
    pairs: dict[str, TrainingPair] = field(default_factory=dict)  # by question id
    gold_faults: int = 0  # questions whose gold does not run

    async def add(self, question: Question, outcome: Outcome) -> None:
        """Run the preliminary SQL, compare it with the gold SQL, and render the eliminator's prompt."""
        settings = self.preparation.settings
        assert isinstance(settings.pipeline, SeaSqlSettings)
        if outcome.sql is None:
            return
        database, timeout_s = self.preparation.databases[question.database_id], settings.benchmark.timeout_s
        gold = self.preparation.benchmark.gold[question.id]
        judge = Judge(self.workers, (RULE,), timeout_s)
        verdict = (await judge.verdicts(database, gold, {"sql": outcome.sql}))["sql"]
        if verdict.gold_status != "ok":
            self.gold_faults += 1
            return
        rows = settings.pipeline.bias_elimination.rows_shown
        execution = await self.workers.execute(database, outcome.sql, rows=rows, timeout_s=timeout_s)
        view = SchemaView(
            database.schema, settings.pipeline.prompt, descriptions=settings.pipeline.descriptions
        )
        if view.prompt.values == "retrieved":
            view = view.with_values(_values_of(outcome))
        shown = elimination_prompt(question, view, outcome.sql, execution, rows)
        right = is_right(verdict, RULE)
        self.pairs[question.id] = make_pair(
            question, shown, outcome.sql, gold, right=right, benchmark=settings.benchmark.name
        )


def _values_of(outcome: Outcome) -> tuple[ColumnValues, ...]:
    value = next((record.value for record in outcome.stages if record.stage == "value_retrieval"), ())
    return _VALUES.validate_python(value)


def _count(found: Pairs, answers: Answers) -> None:
    """Count questions without SQL, failures and calls."""
    outcomes = answers.outcomes.values()
    found.without_sql = sum(outcome.sql is None for outcome in outcomes)
    found.failed = sum(outcome.retryable for outcome in outcomes)
    found.calls = sum(len(outcome.paid_calls) for outcome in outcomes)
