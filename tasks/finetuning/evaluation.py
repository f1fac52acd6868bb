"""Evaluation of an eliminator on held-out pairs: what it fixes and breaks."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tasks.backbone.protocol import Backbone, Message, Request
from tasks.core.errors import BackboneError
from tasks.core.records import Elimination
from tasks.database.database import Database
from tasks.finetuning.pairs import TrainingPair
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.report import Ratio, is_right
from tasks.stages.sea_sql.bias_elimination import read_elimination

RULE = "bird"
"""What a pair counts as right by, in training and here."""


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """One pair and the eliminator's answer to it."""

    pair: TrainingPair  # the pair
    elimination: Elimination  # the eliminator's answer
    before: bool  # whether the preliminary SQL is right
    after: bool  # whether the SQL that goes on is right


@dataclass(frozen=True, slots=True)
class EliminatorScore:
    """What an eliminator does. Every share is over all pairs; an eliminator that fails keeps the preliminary SQL."""

    before: Ratio  # right preliminary SQLs
    after: Ratio  # right SQLs after elimination
    changed: int  # pairs for which it wrote another SQL
    kept: int  # pairs for which it gave no usable answer
    fixed: tuple[str, ...] = field(repr=False)  # ids of questions wrong before and right after
    broken: tuple[str, ...] = field(repr=False)  # ids of questions right before and wrong after

    @property
    def metrics(self) -> dict[str, float]:
        """The score as metrics by name."""
        return {
            "eval/pairs": self.before.total,
            "eval/right_before": self.before.correct,
            "eval/right_after": self.after.correct,
            "eval/changed": float(self.changed),
            "eval/kept": float(self.kept),
            "eval/fixed": float(len(self.fixed)),
            "eval/broken": float(len(self.broken)),
        }


async def judge_pairs(
    pairs: Sequence[TrainingPair],
    eliminator: Backbone,
    judge: Judge,
    database_of: Callable[[TrainingPair], Database],
    *,
    concurrency: int,
    on_judged: Callable[[JudgedPair], None] | None = None,
) -> EliminatorScore:
    """Ask the eliminator about each pair, and compare its SQL and the preliminary one with the gold.

    The eliminator decodes greedily. `RULE` is among the judge's rules.

    Raises:
        BackboneError: every request would fail (e.g. a bad key).
    """
    gate = asyncio.Semaphore(concurrency)

    async def one(pair: TrainingPair) -> JudgedPair:
        async with gate:
            database = database_of(pair)
            elimination = await _ask(pair, eliminator, database.dialect)
            candidates = {"before": pair.sql, "after": elimination.sql}
            verdicts = await judge.verdicts(database, pair.gold, candidates)
            before, after = (is_right(verdicts[name], RULE) for name in ("before", "after"))
            judged = JudgedPair(pair, elimination, before, after)
            if on_judged:
                on_judged(judged)
            return judged

    return score_pairs(await asyncio.gather(*(one(pair) for pair in pairs)))


def score_pairs(judged: Sequence[JudgedPair]) -> EliminatorScore:
    """Count what an eliminator did."""
    return EliminatorScore(
        Ratio(sum(one.before for one in judged), len(judged)),
        Ratio(sum(one.after for one in judged), len(judged)),
        sum(one.elimination.outcome == "changed" for one in judged),
        sum(one.elimination.outcome == "kept" for one in judged),
        tuple(one.pair.question_id for one in judged if one.after and not one.before),
        tuple(one.pair.question_id for one in judged if one.before and not one.after),
    )


async def _ask(pair: TrainingPair, eliminator: Backbone, dialect: str) -> Elimination:
    try:
        reply = await eliminator.complete(Request((Message("user", pair.prompt.text),), temperature=0.0))
    except BackboneError as error:
        if error.fatal:
            raise
        return Elimination(pair.sql, "kept", str(error))
    return read_elimination(reply, pair.sql, dialect)
