"""Merging of a re-run's answers into those of its parent run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flows.questions.runner import RerunSpec
from flows.scoring.scorer import Scorer
from tasks.core.outcome import FAILED_ATTEMPT, Outcome, StageRecord
from tasks.core.records import Question
from tasks.scoring.report import QuestionScore, is_right


@dataclass
class Merge:
    """Merge of a re-run's outcomes into an earlier run: a new answer replaces the old one, a failure never does."""

    scorer: Scorer  # scores the new answers, and adds the old scores
    old: Mapping[str, QuestionScore]  # every question of the parent, by id
    again: Mapping[str, RerunSpec]  # specification of each selected question, by id
    rule: str  # the headline rule
    # ids of questions that failed now and keep the answer that they had
    kept: list[str] = field(default_factory=list)
    # ids of questions that were not asked, because the run was ended
    not_asked: list[str] = field(default_factory=list)
    # ids of questions that have no new answer for a reason that can be retried
    unanswered: set[str] = field(default_factory=set)
    # ids of questions whose every stage was restored from earlier results: the model was not asked
    restored: list[str] = field(default_factory=list)

    async def carry_over(self) -> None:
        """Add the old score of every question that is not asked again."""
        for name, score in self.old.items():
            if name not in self.again:
                await self.scorer.add_scored(paid_before(score))

    async def score(self, question: Question, outcome: Outcome) -> None:
        """Score a new answer; if there is none, keep the old one."""
        old, again = self.old[question.id], self.again[question.id]
        if outcome.retryable:
            self.unanswered.add(question.id)
        if not outcome.attempts:
            self.not_asked.append(question.id)
            await self.scorer.add_scored(paid_before(old))
            return
        if outcome.stages and all(record.restored for record in outcome.stages):
            self.restored.append(question.id)
        attempts = old.outcome.attempts + (question.id not in self.restored)
        if outcome.failure and old.outcome.failure is None:
            self.kept.append(question.id)
            kept = paid_before(old)
            stages = (*kept.outcome.stages, *failed_attempt(outcome, attempts))
            merged = replace(kept.outcome, stages=stages, attempts=attempts)
            await self.scorer.add_scored(replace(kept, outcome=merged))
            return
        samples = old.outcome.samples
        if again.attempt not in samples:
            samples = (*samples, again.attempt) if again.from_stage else (again.attempt,)
        await self.scorer.score(question, replace(outcome, attempts=attempts, samples=samples))

    def facts(self) -> dict[str, Any]:
        """Return the counts of the re-run as plain JSON."""
        new = {score.question.id: score for score in self.scorer.scores}
        pairs = [(self.old[name], new[name]) for name in self.again if name in new]
        asked = self.again.keys() - {*self.not_asked, *self.restored}
        resampled = asked | {
            name for name in self.restored if self.again[name].attempt not in self.old[name].outcome.samples
        }
        had_answer = [(old, now) for old, now in pairs if not old.outcome.failure]
        right = [(self._right(old), self._right(now)) for old, now in pairs]
        return {
            "selected": len(self.again),
            "restored": len(self.restored),
            "asked": len(asked),
            "rerolled": any(
                old.question.id in resampled or _answer(old) != _answer(now) for old, now in had_answer
            ),
            "changed": sum(_answer(old) != _answer(now) for old, now in pairs),
            "resolved": sum(bool(old.outcome.failure) and not now.outcome.failure for old, now in pairs),
            "fixed": sum(now and not before for before, now in right),
            "broken": sum(before and not now for before, now in right),
            "still_failed": sum(bool(now.outcome.failure) for _, now in pairs),
            "kept": len(self.kept),
            "unanswered": len(
                self.unanswered | {now.question.id for _, now in pairs if now.outcome.retryable}
            ),
            "attempts": {
                now.question.id: now.outcome.attempts for now in new.values() if now.outcome.attempts > 1
            },
        }

    def _right(self, score: QuestionScore) -> bool:
        return is_right(score.final, self.rule)


def paid_before(score: QuestionScore) -> QuestionScore:
    """Return an old answer with every stage marked as restored: its calls were paid by an earlier run.

    Failed attempts are left out: no part of the answer is from them.
    """
    stages = (record for record in score.outcome.stages if record.stage != FAILED_ATTEMPT)
    restored = tuple(replace(record, restored=True) for record in stages)
    return replace(score, outcome=replace(score.outcome, stages=restored))


def failed_attempt(outcome: Outcome, number: int) -> tuple[StageRecord, ...]:
    """Return the calls of a failed attempt as one stage beside those of the kept answer; () if it made none.

    Only calls of this attempt: those of stages that it restored are of an earlier run.
    """
    made = [record for record in outcome.stages if not record.restored]
    calls = tuple(
        replace(call, round=place)
        for place, call in enumerate(call for record in made for call in record.calls)
    )
    if not calls or outcome.failure is None:
        return ()
    seconds, label = sum(record.seconds or 0.0 for record in made), f"{FAILED_ATTEMPT} {number}"
    error = outcome.failure.message
    return (
        StageRecord(FAILED_ATTEMPT, label, None, restored=False, calls=calls, seconds=seconds, error=error),
    )


def _answer(score: QuestionScore) -> tuple[str | None, bool]:
    return score.outcome.sql, score.outcome.failure is None
