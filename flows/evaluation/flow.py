"""The `evaluate` flow: one benchmark, one backbone, one pipeline."""

import time
from dataclasses import asdict, replace
from pathlib import Path
from uuid import UUID

from prefect import flow
from prefect.runtime import flow_run

from flows.evaluation.tracking import Tracking
from flows.orchestration.flow_runs import require_workers
from flows.orchestration.killed_runs import note_run
from flows.orchestration.stage_results import PersistedResults
from flows.orchestration.task_runs import wait_until_recorded
from flows.questions import schema_only
from flows.questions.pool import NO_SHARDS, Answers, answer_all
from flows.questions.preparation import Preparation, prepare
from flows.questions.recording import Recorder, open_recorder
from flows.questions.resources import Resources, open_resources
from flows.questions.runner import INTERNAL, Asker
from flows.report.result import Evaluated
from flows.runtime.budget import within
from flows.runtime.control import Control, Progress, current_control
from flows.scoring.scorer import Scorer
from flows.sharding.launch import answer_in_shards
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Backbone
from tasks.backbone.recordings.replay import RecordedBackbone
from tasks.errors import BackboneError, ConfigurationError
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home


@flow(
    name="evaluate",
    flow_run_name="{settings.benchmark.name} | {settings.backbone.name} | {settings.pipeline.name}",
    validate_parameters=False,
    persist_result=False,
)
async def evaluate(settings: EvaluationSettings) -> Evaluated:
    """Take every question through the pipeline, score each stage, and log the run to MLflow.

    Raises:
        CrosscheckError: in the user's words, what is wrong and how to mend it.
        Interrupted: the user asked to stop; what was answered is persisted.
    """
    control, home = current_control(), Home(Path(settings.home))
    note_run(flow_run=str(flow_run.id))
    preparation = prepare(settings, control.progress)
    if settings.shards > 1:
        await require_workers()
    async with (
        open_resources(settings) as resources,
        Tracking.of(preparation, home, control, resources.replies, control.tags) as tracking,
    ):
        return await _evaluate(preparation, home, control, resources, tracking)


async def _evaluate(
    preparation: Preparation,
    home: Home,
    control: Control,
    resources: Resources,
    tracking: Tracking,
) -> Evaluated:
    started, backbone = time.monotonic(), resources.backbone
    paying = within(control.budget, backbone, preparation.settings.backbone)
    recorder = open_recorder(preparation.settings, paying, resources.replies)
    scorer = Scorer(preparation, resources.workers, tracking.keep, control.progress, cache=resources.verdicts)
    results = PersistedResults(home)
    asker = Asker(
        preparation.settings,
        preparation.known,
        preparation.shown,
        MeteredBackbone(tracking.tracing.overhear(recorder.backbone if recorder else paying)),
        resources.workers,
        None if recorder and not recorder.restoring else results,
        control.stop.is_set,
        eliminator=resources.eliminator,
        run=tracking.run.run_id,
    )
    shards = (
        await answer_in_shards(preparation.settings, tracking.run, results, control)
        if preparation.settings.shards > 1
        else NO_SHARDS
    )
    answers = await answer_all(preparation.asked, asker, control, scorer.hear, shards)
    complain_if_nothing_was_answered(answers)
    _tell(control.progress, preparation, answers, backbone, recorder)
    answers.task_runs += shards.launches
    own = answers.task_runs - shards.task_runs
    recorded = shards.recorded + await wait_until_recorded(UUID(flow_run.id), own, control.progress)
    report = scorer.report(link_all=bool(preparation.schema_only))
    evaluated = await tracking.finish(report, answers, recorded, time.monotonic() - started)
    if not isinstance(backbone, RecordedBackbone):
        return evaluated
    return replace(evaluated, summary={**evaluated.summary, "replay": asdict(backbone.served)})


def _tell(
    progress: Progress,
    preparation: Preparation,
    answers: Answers,
    backbone: Backbone,
    recorder: Recorder | None,
) -> None:
    """Write the recording, and say what a user should know about replies that are recorded or were."""
    if recorder:
        progress.note(recorder.write(preparation.asked, answers.outcomes))
    if isinstance(backbone, RecordedBackbone):
        restored = (
            f"; {answers.restored:,} questions were restored from an earlier replay"
            if answers.restored
            else ""
        )
        progress.note(f"Replies served from the recording: {backbone.served}{restored}.")
    by_schema = {
        question.id: answers.outcomes[question.id]
        for question in preparation.asked
        if question.database_id in preparation.schema_only and question.id in answers.outcomes
    }
    if by_schema:
        progress.note(schema_only.told(by_schema, len(preparation.asked)))


def complain_if_nothing_was_answered(answers: Answers) -> None:
    """A run in which the backbone refused everything has nothing to report: say why instead of printing 0 %."""
    outcomes = answers.outcomes.values()
    failures = [outcome.failure for outcome in outcomes if outcome.failure]
    if not failures or len(failures) < len(outcomes):
        return
    if all(failure.kind == INTERNAL for failure in failures):
        raise RuntimeError(f"every question failed; the first: {failures[0].message}")
    if any(record.calls for outcome in outcomes for record in outcome.stages):
        if answers.fatal:
            raise BackboneError(answers.fatal, transient=True, fatal=True)
        return
    if refusals := [failure.message for failure in failures if failure.ends_run]:
        raise ConfigurationError(refusals[0])
    if silences := [failure.message for failure in failures if failure.kind == "backbone_error"]:
        raise BackboneError(silences[0], transient=True)
