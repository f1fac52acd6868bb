"""The `rerun` flow: some questions of an earlier run once more, merged with the answers to all others."""

from collections.abc import Coroutine
from typing import Any

from prefect import Flow, flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from flows.evaluation.session import ScoredSession
from flows.orchestration.flow_runs import final_state
from flows.questions.preparation import Preparation, prepare
from flows.rerun.merge import Merge
from flows.rerun.plan import RerunPlan, check_data
from flows.runtime.control import Control
from tasks.core.outcome import FAILED_ATTEMPT
from tasks.core.wording import counted
from tasks.settings.evaluation import RerunSettings
from tasks.tracking.evaluation import GENERATED_DESCRIPTIONS, REROLLED


def rerun_flow(
    plan: RerunPlan, control: Control, preparation: Preparation | None = None
) -> Flow[[RerunSettings], Coroutine[Any, Any, State[Any]]]:
    """Return the flow `rerun`, which takes what the user asked for (`plan.asked_for`).

    Args:
        plan: which questions are asked again, and how.
        control: progress and stop requests, which Prefect could not store as parameters.
        preparation: what the preparation of the plan's settings found; None: the flow prepares itself.
    """

    @flow(name="rerun", flow_run_name="rerun {settings.run}", validate_parameters=False, persist_result=False)
    async def rerun(settings: RerunSettings) -> State[Any]:
        """Ask some questions of a run again, and log a new run that holds all of its questions.

        Raises:
            CrosscheckError: what is wrong and what to do about it.
            Interrupted: the user asked to stop; the earlier run is unchanged, and what was answered is persisted.
        """
        control.begin_flow_run(str(flow_run.id))
        prepared = preparation or prepare(plan.settings, control.progress)
        check_data(plan.parent.run, prepared.benchmark, prepared.databases)
        async with ScoredSession.open(prepared, control, {**plan.tags, **control.tags}) as session:
            old = {score.question.id: score for score in plan.parent.rows}
            merge = Merge(session.scorer, old, plan.again, plan.settings.benchmark.rule)
            await merge.carry_over()
            asked = [question for question in prepared.answerable if question.id in plan.again]
            answers = await session.answer(asked, score=merge.score, reruns=plan.again)
            if answers.fatal:  # failures of some questions are a result, those of all are not
                session.raise_if_nothing_was_answered(answers)
            before = plan.parent.run.tags.get(GENERATED_DESCRIPTIONS, "")
            if prepared.generated != before:
                control.progress.note(
                    f"Prompts of {plan.parent.run.run_id} showed other generated column descriptions "
                    f"({before or 'none'}) than those of this run ({prepared.generated or 'none'}): its answers to "
                    "both are merged."
                )
            facts = _facts(plan, merge)
            for line in summary(facts, len(old)):
                control.progress.note(line)
            tags = {REROLLED: "true"} if facts["rerolled"] else {}
            state: State[Any] = final_state(await session.finish(answers, facts={"rerun": facts}, tags=tags))
            return state

    return rerun


def _facts(plan: RerunPlan, merge: Merge) -> dict[str, Any]:
    merged = merge.facts()
    return {
        "parent": plan.parent.run.run_id,
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
    if facts["unanswered"]:
        sentences.append(
            f"{facts['unanswered']:,} of {facts['selected']:,} selected questions have no new answer for a reason that "
            "can be retried: the same command asks only them again, and restores the new answers to the others."
        )
    if facts["rerolled"]:
        sentences.append(
            "This run is rerolled: questions that had an answer were repeated. Its score is not comparable with "
            "that of a run that asked every question once."
        )
    return sentences
