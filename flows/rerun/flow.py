"""The `rerun` flow: some questions of an earlier run once more, merged with the answers to all others."""

import time
from pathlib import Path
from uuid import UUID

from prefect import flow
from prefect.runtime import flow_run

from flows.evaluation.flow import complain_if_nothing_was_answered
from flows.evaluation.tracking import Tracking
from flows.orchestration.killed_runs import note_run
from flows.orchestration.stage_results import PersistedResults
from flows.orchestration.task_runs import wait_until_recorded
from flows.questions.pool import answer_all
from flows.questions.preparation import Preparation, prepare
from flows.questions.resources import Resources, open_resources
from flows.questions.runner import Asker
from flows.report.result import Evaluated
from flows.rerun.merge import Merge
from flows.rerun.plan import RerunPlan, check_questions, plan_rerun
from flows.runtime.control import Control, current_control
from flows.scoring.scorer import Scorer
from tasks.backbone.metered import MeteredBackbone
from tasks.settings.evaluation import RerunSettings
from tasks.settings.home import Home


@flow(name="rerun", flow_run_name="rerun {settings.run}", validate_parameters=False, persist_result=False)
async def rerun(settings: RerunSettings) -> Evaluated:
    """Ask some questions of a run again, and log a new run that holds all of its questions.

    Raises:
        CrosscheckError: in the user's words, what is wrong and how to mend it.
        Interrupted: the user asked to stop; the run before is as it was, and what was answered is persisted.
    """
    control, home = current_control(), Home(Path(settings.home))
    note_run(flow_run=str(flow_run.id))
    plan = plan_rerun(settings)
    preparation = prepare(plan.settings, control.progress)
    check_questions(plan.parent.run, preparation.benchmark.folder / plan.settings.benchmark.questions)
    async with (
        open_resources(plan.settings) as resources,
        Tracking.of(preparation, home, control, resources.replies, plan.tags) as tracking,
    ):
        return await _rerun(plan, preparation, home, control, resources, tracking)


async def _rerun(
    plan: RerunPlan,
    preparation: Preparation,
    home: Home,
    control: Control,
    resources: Resources,
    tracking: Tracking,
) -> Evaluated:
    started = time.monotonic()
    scorer = Scorer(preparation, resources.workers, tracking.keep, control.progress, cache=resources.verdicts)
    old = {score.question.id: score for score in plan.parent.rows}
    merge = Merge(scorer, old, plan.again, plan.settings.benchmark.rule)
    await merge.take_the_rest()
    asker = Asker(
        preparation.settings,
        preparation.known,
        preparation.shown,
        MeteredBackbone(tracking.tracing.overhear(resources.backbone)),
        resources.workers,
        PersistedResults(home),
        control.stop.is_set,
        again=plan.again,
        eliminator=resources.eliminator,
    )
    asked = [question for question in preparation.asked if question.id in plan.again]
    answers = await answer_all(asked, asker, control, merge.hear)
    if answers.fatal:  # a few questions that fail once more are an answer; an endpoint that refuses is none
        complain_if_nothing_was_answered(answers)
    facts = {
        "parent": plan.parent.run.run_id,
        "selection": plan.selection,
        "from": plan.asked_for.from_stage,
        "fresh": plan.asked_for.fresh,
        "attempt": plan.attempt,
        "rerolled": plan.rerolled,
        **merge.facts(),
    }
    for line in told(facts, len(old)):
        control.progress.note(line)
    recorded = await wait_until_recorded(UUID(flow_run.id), answers.task_runs, control.progress)
    report = scorer.report(link_all=bool(preparation.schema_only))
    return await tracking.finish(report, answers, recorded, time.monotonic() - started, {"rerun": facts})


def told(facts: dict[str, object], questions: int) -> list[str]:
    """Return what a re-run came to, in sentences."""
    said = [
        f"Re-run of {facts['parent']} ({facts['selection']}): {facts['asked']:,} of {questions:,} questions were asked "
        f"again, {facts['changed']:,} answers changed ({facts['mended']:,} failures mended; {facts['fixed']:,} became "
        f"right, {facts['broken']:,} wrong); all others are as they were."
    ]
    if facts["kept"]:
        said.append(f"{facts['kept']:,} questions failed now and keep the answer that they had.")
    if facts["rerolled"]:
        said.append(
            "This run is rerolled: questions that had an answer were asked again, which ones being decided by looking "
            "at the answers. Its score is not comparable with that of a run that asked every question once."
        )
    return said
