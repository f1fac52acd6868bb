"""The `rerun` flow: some questions of an earlier run once more, merged with the answers to all others."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.evaluate.launch import launched
from flows.evaluate.preparation import Preparation, prepare
from flows.evaluate.rerun_plan import RerunPlan, check_data
from flows.evaluate.runner import RerunSpec
from flows.evaluate.scorer import Scorer
from flows.evaluate.session import Session
from flows.prefect.flow_runs import final_state, result_of
from flows.prefect.server import LocalServer
from flows.runtime.control import Control
from tasks.core.outcome import FAILED_ATTEMPT, Outcome, StageRecord
from tasks.core.records import Question
from tasks.core.wording import counted
from tasks.results.run_record import GENERATED_DESCRIPTIONS, REROLLED, RunRecord
from tasks.scoring.report import QuestionScore, is_right
from tasks.settings.evaluation import RerunSettings


@dataclass
class Merge:
    """Merge of a re-run's outcomes into an earlier run: a new answer replaces the old one, a failure never does."""

    scorer: Scorer  # scores the new answers, and adds the old scores
    old: Mapping[str, QuestionScore]  # every question of the parent, by id
    again: Mapping[str, RerunSpec]  # specification of each selected question, by id
    rule: str  # the headline rule
    # ids of questions that failed now and keep the answer that they had
    kept: list[str] = field(default_factory=list)
    # ids of questions that were not run because the evaluation was stopped
    not_asked: list[str] = field(default_factory=list)
    # ids of questions that have no new answer for a reason that can be retried
    no_new_answer: set[str] = field(default_factory=set)
    # ids of questions all of whose stages were restored from earlier results
    restored: list[str] = field(default_factory=list)

    async def carry_over(self) -> None:
        """Add the old score of every question that is not run again."""
        for name, score in self.old.items():
            if name not in self.again:
                await self.scorer.add_scored(paid_before(score))

    async def score(self, question: Question, outcome: Outcome) -> None:
        """Score a new answer; if there is none, keep the old one."""
        old, again = self.old[question.id], self.again[question.id]
        if outcome.retryable:
            self.no_new_answer.add(question.id)
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
            "no_new_answer": len(
                self.no_new_answer | {now.question.id for _, now in pairs if now.outcome.retryable}
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


def rerun(
    plan: RerunPlan, control: Control, preparation: Preparation | None = None
) -> Callable[[RerunSettings], Coroutine[Any, Any, State[Any]]]:
    """Return the body of the flow `rerun`, a function of its settings (`plan.asked_for`).

    Args:
        plan: which questions are asked again, and how.
        control: progress and stop requests, which Prefect could not store as parameters.
        preparation: what the preparation of the plan's settings found; None: the flow prepares itself.
    """

    async def repeat(settings: RerunSettings) -> State[Any]:
        """Ask some questions of a run again, and log a new run that holds all of its questions."""
        control.begin_flow_run(str(flow_run.id))
        prepared = preparation or prepare(plan.settings, control.progress)
        check_data(plan.parent, prepared.benchmark, prepared.databases)
        async with Session.open(prepared, control, {**plan.tags, **control.tags}) as session:
            old = {score.question.id: score for score in plan.parent.rows}
            merge = Merge(session.scorer, old, plan.again, plan.settings.benchmark.rule)
            await merge.carry_over()
            asked = [question for question in prepared.answerable if question.id in plan.again]
            answers = await session.answer(asked, score=merge.score, reruns=plan.again)
            if answers.fatal:  # failures of some questions are a result, those of all are not
                session.raise_if_nothing_was_answered(answers)
            before = plan.parent.tags.get(GENERATED_DESCRIPTIONS, "")
            if prepared.generated != before:
                control.progress.note(
                    f"Prompts of {plan.parent.run_id} showed other generated column descriptions "
                    f"({before or 'none'}) than those of this run ({prepared.generated or 'none'}): its answers to "
                    "both are merged."
                )
            facts = _facts(plan, merge)
            for line in summary(facts, len(old)):
                control.progress.note(line)
            tags = {REROLLED: "true"} if facts["rerolled"] else {}
            state: State[Any] = final_state(await session.finish(answers, facts={"rerun": facts}, tags=tags))
            return state

    return repeat


def _facts(plan: RerunPlan, merge: Merge) -> dict[str, Any]:
    merged = merge.facts()
    return {
        "parent": plan.parent.run_id,
        "selection": plan.selection,
        "from": plan.asked_for.from_stage,
        "fresh": plan.asked_for.fresh,
        "attempt": plan.attempt,
        **merged,
        "rerolled": merged["rerolled"] or REROLLED in plan.tags,
    }


def summary(facts: dict[str, Any], questions: int) -> list[str]:
    """Return the counts of a re-run in sentences."""
    changed, resolved = counted(facts["changed"], "answer"), counted(facts["resolved"], "failure")
    sentences = [
        f"Re-run of {facts['parent']} ({facts['selection']}), {facts['selected']:,} of "
        f"{counted(questions, 'question')}: {facts['asked']:,} repeated, {facts['restored']:,} restored from "
        f"earlier results. {changed} changed ({resolved} resolved; {facts['fixed']:,} became right, "
        f"{facts['broken']:,} wrong); all others are as they were."
    ]
    if facts["restored"] and not facts["asked"]:
        sentences.append(
            "Nothing was repeated: every answer was restored. --fresh requests new replies; --from STAGE runs that "
            "stage and the later ones again."
        )
    if facts["kept"]:
        sentences.append(
            f"{facts['kept']:,} of {facts['selected']:,} selected questions failed now and keep the answer that they "
            f"had; what they cost is counted under {FAILED_ATTEMPT}."
        )
    if facts["no_new_answer"]:
        sentences.append(
            f"{facts['no_new_answer']:,} of {facts['selected']:,} selected questions have no new answer for a reason "
            "that can be retried: the same command asks only them again, and restores the new answers to the others."
        )
    if facts["rerolled"]:
        sentences.append(
            "This run is rerolled: questions that had an answer were repeated. Its score is not comparable with "
            "that of a run that asked every question once."
        )
    return sentences


def run_rerun(
    plan: RerunPlan,
    control: Control,
    server: LocalServer | None = None,
    preparation: Preparation | None = None,
) -> RunRecord:
    """Send the questions of a plan again, in the present thread; `server` and `preparation` are as in `launched`."""
    opened = launched(plan.settings, control, server, flow="flows.evaluate.rerun", preparation=preparation)
    with opened as prefect, prefect.keeping_result():
        repeat: Any = flow(
            name="rerun",
            flow_run_name="rerun {settings.run}",
            validate_parameters=False,
            persist_result=False,
        )(rerun(plan, control, prefect.preparation))
        state = prefect.loop.run(repeat(plan.asked_for, return_state=True))
        control.result = prefect.loop.run(result_of(state))
    record: RunRecord = control.result
    return record
