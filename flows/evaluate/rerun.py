"""The `rerun` flow: some questions of an earlier run once more, merged with the answers to all others."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.evaluate.preparation import Preparation, prepare, settings_of_run
from flows.evaluate.run import launched
from flows.evaluate.runner import RerunSpec
from flows.evaluate.scorer import Scorer
from flows.evaluate.session import Session
from flows.prefect.flow_runs import as_flow, beginnings, final_state, flow_run_id, result_of
from flows.prefect.server import LocalServer
from flows.runtime.control import Control
from tasks.backbone.kind import kind_of
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.selection import select
from tasks.core.errors import ConfigurationError, DataError, did_you_mean
from tasks.core.outcome import FAILED_ATTEMPT, Outcome, StageRecord
from tasks.core.records import Question
from tasks.core.wording import counted, shorten
from tasks.database.database import Database, digests_of
from tasks.results.comparability import changed_sources
from tasks.results.run_record import GENERATED_DESCRIPTIONS, REROLLED, TRAINING_QUESTIONS, RunRecord
from tasks.results.warehouse.runs import Warehouse, find_run
from tasks.scoring.scores import QuestionScore, is_right
from tasks.settings.choices import PINNED, Only, QuestionSelection
from tasks.settings.evaluation import EvaluationSettings, RerunSettings
from tasks.settings.home import Home

_OWN_TAGS = (
    *("parent_run_id", "parent_mlflow_run_id", "rerun", "rerun_from", "attempt", GENERATED_DESCRIPTIONS),
    *(TRAINING_QUESTIONS, "name", "note", PINNED),
)
"""Tags of one re-run, which a re-run of it does not inherit."""


@dataclass(frozen=True)
class RerunPlan:
    """Re-run that is ready to start."""

    asked_for: RerunSettings
    parent: RunRecord  # the run whose answers are merged
    settings: EvaluationSettings  # the parent's settings, over all of its questions
    again: Mapping[str, RerunSpec] = field(repr=False)  # how each selected question is asked, by id
    attempt: int  # which sampling of the model `fresh` asks for; 0 without it

    @property
    def selection(self) -> str:
        """Option that selects the questions to ask again."""
        return _selection_option(self.asked_for)

    @property
    def tags(self) -> dict[str, str]:
        """Tags of the run in MLflow; the tag that it is rerolled is its parent's, or added when it ends."""
        settings, run = self.asked_for, self.parent
        inherited = {name: value for name, value in run.tags.items() if name not in _OWN_TAGS}
        tags = inherited | {"parent_run_id": run.run_id, "rerun": self.selection}
        tags |= {"parent_mlflow_run_id": run.mlflow_run_id} if run.mlflow_run_id else {}
        tags |= {"rerun_from": settings.from_stage} if settings.from_stage else {}
        return tags | ({"attempt": str(self.attempt)} if settings.fresh else {})


def plan_rerun(asked_for: RerunSettings) -> RerunPlan:
    """Read the parent run and select the questions to ask again."""
    warehouse = Warehouse(Home(Path(asked_for.home)).warehouse)
    header = find_run(asked_for.run, warehouse.runs())
    parent = warehouse.read_run(header.run_id)
    if not header.is_finished or not parent.rows:
        raise DataError(
            f"The run {header.run_id} is {header.status}, so it has no answers to merge with: the command that began "
            "it continues it."
        )
    settings = settings_of_run(parent, asked_for.overrides, data=asked_for.data, home=asked_for.home)
    selected = _select_scores(asked_for, parent)
    if asked_for.from_stage and asked_for.from_stage not in (stages := _stage_names(parent.rows)):
        raise ConfigurationError(
            f"--from {asked_for.from_stage}: no question of run {parent.run_id} went through such a stage. "
            f"{did_you_mean(asked_for.from_stage, stages)}"
        )
    if asked_for.fresh and kind_of(settings.backbone).replays:
        raise ConfigurationError(
            "--fresh: a recording always returns the recorded replies; only a model can give new ones."
        )
    attempt = _fresh_attempt(asked_for, parent, warehouse) if asked_for.fresh else 0
    return RerunPlan(
        asked_for=asked_for,
        parent=parent,
        settings=settings,
        again={name: _rerun_spec(score.outcome, asked_for, attempt) for name, score in selected.items()},
        attempt=attempt,
    )


def check_data(run: RunRecord, benchmark: Benchmark, databases: Mapping[str, Database]) -> None:
    """Check that the benchmark's questions and databases are still those of the run."""
    if benchmark.digest != run.question_sha256:
        raise DataError(
            f"The questions {benchmark.question_files[0]} are not those of run {run.run_id} (their sha256 differs). "
            "Name the folder that they were read from with --data, or evaluate again."
        )
    digests = digests_of(databases)
    for name, digest in run.databases.items():
        # A database that is absent now has no digest: it is not compared.
        if digests.get(name, digest) != digest:
            raise DataError(
                f'The database "{name}" has changed since run {run.run_id} (its sha256 differs), so a merged '
                "score would mix two states of the data. Evaluate again with the same command: paid replies are reused."
            )


def _fresh_attempt(settings: RerunSettings, parent: RunRecord, warehouse: Warehouse) -> int:
    """Return the number of the attempt, a sampling of the model, that a fresh re-run makes or continues.

    The last attempt is continued if it lacks answers and the request is the same: the same selection and stage, of the
    run that it re-ran or of the run that it became.
    """
    last = warehouse.last_sampled(parent)
    if last is None:
        return 1
    facts = last.rerun or {}
    attempt = int(last.tags["attempt"])
    request = (_selection_option(settings), settings.from_stage)
    same_request = request == (facts.get("selection"), facts.get("from"))
    continued = same_request and parent.run_id in (facts["parent"], last.run_id)
    return attempt if continued and facts.get("no_new_answer") else attempt + 1


def _select_scores(settings: RerunSettings, parent: RunRecord) -> dict[str, QuestionScore]:
    rows = {row.question.id: row for row in parent.rows if row.executable}
    if settings.questions is not None:
        named = select([row.question for row in parent.rows], QuestionSelection(questions=settings.questions))
        return {question.id: rows[question.id] for question in named if question.id in rows}
    if only := _only(settings):
        return {name: row for name, row in rows.items() if _matches(only, row, parent.rule)}
    return {name: row for name, row in rows.items() if settings.from_stage in _stage_names([row])}


def _selection_option(settings: RerunSettings) -> str:
    if settings.questions:
        return f"--questions {settings.questions}"
    only = _only(settings)
    return f"--only {only}" if only else f"--from {settings.from_stage}"


def _only(settings: RerunSettings) -> Only | None:
    """Return which answers are asked for again; None: those of every question that went through the stage."""
    return settings.only or (None if settings.from_stage else "errors")


def _matches(kind: Only, row: QuestionScore, rule: str) -> bool:
    """Return whether `--only` with this value asks a question again."""
    failure = row.outcome.failure
    final = row.final
    if kind == "errors":
        return failure is not None and (failure.retryable or failure.kind == "internal_error")
    if kind == "wrong":
        return failure is None and not is_right(final, rule)
    if kind == "empty":
        return final.status == "ok" and final.row_count == 0
    return final.status == "timeout"


def _stage_names(rows: Iterable[QuestionScore]) -> set[str]:
    records = (record for row in rows for record in row.outcome.stages if record.stage != FAILED_ATTEMPT)
    return {name for record in records for name in (record.stage, record.label)}


def _rerun_spec(old: Outcome, settings: RerunSettings, attempt: int) -> RerunSpec:
    """Return how to repeat a question: with a new sample, from a stage on, or by continuing its last attempt."""
    latest_first = tuple(reversed(old.samples))
    if settings.fresh:
        return RerunSpec(attempt, latest_first if settings.from_stage else (), settings.from_stage or "")
    if settings.from_stage:
        return RerunSpec(latest_first[0], latest_first, settings.from_stage, refresh=True)
    return RerunSpec(latest_first[0], latest_first[1:])


@dataclass
class Merge:
    """Merge of a re-run's outcomes into an earlier run: a new answer replaces the old one, a failure never does."""

    scorer: Scorer
    old: Mapping[str, QuestionScore]  # every question of the parent, by id
    again: Mapping[str, RerunSpec]  # each selected question, by id
    rule: str
    # ids of questions
    kept: list[str] = field(default_factory=list)  # that failed now and keep the answer that they had
    not_asked: list[str] = field(default_factory=list)  # that were not run because the evaluation was stopped
    no_new_answer: set[str] = field(default_factory=set)  # without a new answer for a retryable reason
    restored: list[str] = field(default_factory=list)  # all of whose stages were restored

    async def score(self, question: Question, outcome: Outcome) -> None:
        """Score a new answer; if there is none, keep the old one."""
        old = self.old[question.id]
        spec = self.again[question.id]
        if outcome.retryable:
            self.no_new_answer.add(question.id)
        if not outcome.attempts:  # the run ended before this question
            self.not_asked.append(question.id)
            await self.scorer.add_scored(paid_before(old))
            return
        if outcome.stages and all(record.restored for record in outcome.stages):
            self.restored.append(question.id)
        attempts = old.outcome.attempts + (question.id not in self.restored)
        if outcome.failure and old.outcome.failure is None:
            self.kept.append(question.id)
            earlier = paid_before(old)
            stages = (*earlier.outcome.stages, *failed_attempt(outcome, attempts))
            merged = replace(earlier.outcome, stages=stages, attempts=attempts)
            await self.scorer.add_scored(replace(earlier, outcome=merged))
            return
        samples = old.outcome.samples
        if spec.attempt not in samples:  # stages before `from_stage` keep the results of earlier samplings
            samples = (*samples, spec.attempt) if spec.from_stage else (spec.attempt,)
        await self.scorer.score(question, replace(outcome, attempts=attempts, samples=samples))

    def facts(self) -> dict[str, Any]:
        """Return the counts of the re-run as plain JSON."""
        new = {score.question.id: score for score in self.scorer.scores}
        pairs = [(self.old[name], new[name]) for name in self.again if name in new]
        asked = self.again.keys() - {*self.not_asked, *self.restored}
        # also those whose new answer is restored from a re-run that was interrupted
        resampled = asked | {
            name for name in self.restored if self.again[name].attempt not in self.old[name].outcome.samples
        }
        had_answer = [(old, now) for old, now in pairs if not old.outcome.failure]
        verdicts = [(is_right(old.final, self.rule), is_right(now.final, self.rule)) for old, now in pairs]
        retryable = {now.question.id for _, now in pairs if now.outcome.retryable}
        attempts = {id_: score.outcome.attempts for id_, score in new.items()}
        return {
            "selected": len(self.again),
            "restored": len(self.restored),
            "asked": len(asked),
            "rerolled": any(
                old.question.id in resampled or _has_changed(old, now) for old, now in had_answer
            ),
            "changed": sum(_has_changed(old, now) for old, now in pairs),
            "resolved": sum(bool(old.outcome.failure) and not now.outcome.failure for old, now in pairs),
            "fixed": sum(right_now and not was_right for was_right, right_now in verdicts),
            "broken": sum(was_right and not right_now for was_right, right_now in verdicts),
            "still_failed": sum(bool(now.outcome.failure) for _, now in pairs),
            "kept": len(self.kept),
            "no_new_answer": len(self.no_new_answer | retryable),
            "attempts": {id_: count for id_, count in attempts.items() if count > 1},
        }


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
    attempted = [record for record in outcome.stages if not record.restored]
    attempted_calls = (call for record in attempted for call in record.calls)
    calls = tuple(replace(call, round=index) for index, call in enumerate(attempted_calls))
    if not calls or outcome.failure is None:
        return ()
    seconds = sum(record.seconds or 0.0 for record in attempted)
    label = f"{FAILED_ATTEMPT} {number}"
    error = outcome.failure.message
    return (
        StageRecord(FAILED_ATTEMPT, label, None, restored=False, calls=calls, seconds=seconds, error=error),
    )


def _has_changed(old: QuestionScore, now: QuestionScore) -> bool:
    before, after = old.outcome, now.outcome
    return before.sql != after.sql or (before.failure is None) != (after.failure is None)


def rerun(
    plan: RerunPlan, control: Control, preparation: Preparation | None = None
) -> Callable[[RerunSettings], Coroutine[Any, Any, Any]]:
    """Return the body of the flow `rerun`, a function of its settings; without a preparation it prepares them."""

    async def repeat(settings: RerunSettings) -> Any:
        """Ask some questions of a run again, and log a new run that holds all of its questions."""
        control.begin_flow_run(flow_run_id())
        prepared = preparation or prepare(plan.settings, control.progress)
        check_data(plan.parent, prepared.benchmark, prepared.databases)
        async with Session.open(prepared, control, {**plan.tags, **control.tags}) as session:
            old = {score.question.id: score for score in plan.parent.rows}
            merge = Merge(session.scorer, old, plan.again, plan.settings.benchmark.rule)
            for name, score in old.items():
                if name not in plan.again:
                    await session.scorer.add_scored(paid_before(score))
            asked = [question for question in prepared.answerable if question.id in plan.again]
            answers = await session.answer(asked, score=merge.score, reruns=plan.again)
            if answers.fatal:  # failures of some questions are a result, those of all are not
                session.raise_if_nothing_was_answered(answers)
            for line in what_changed(plan.parent, session.run):
                control.progress.note(line)
            facts = {
                "parent": plan.parent.run_id,
                "selection": plan.selection,
                "from": plan.asked_for.from_stage,
                "fresh": plan.asked_for.fresh,
                "attempt": plan.attempt,
                **merge.facts(),
            }
            facts["rerolled"] = facts["rerolled"] or REROLLED in plan.tags
            for line in summary(facts, len(old)):
                control.progress.note(line)
            tags = {REROLLED: "true"} if facts["rerolled"] else {}
            return final_state(await session.finish(answers, facts={"rerun": facts}, tags=tags))

    return repeat


def what_changed(parent: RunRecord, run: RunRecord) -> Iterator[str]:
    """Yield what requests of a run and of its re-run are made of, where it changed, in sentences."""
    shown_before, shown_now = (record.tags.get(GENERATED_DESCRIPTIONS, "none") for record in (parent, run))
    if shown_before != shown_now:
        yield (
            f"Prompts of {parent.run_id} showed other generated column descriptions ({shown_before}) than those of "
            f"this run ({shown_now}): its answers to both are merged."
        )
    chosen_from = parent.tags.get(TRAINING_QUESTIONS)  # None: an older release did not note it
    if chosen_from and (source := run.tags.get(TRAINING_QUESTIONS, "none")) != chosen_from:
        yield (
            f"The training questions changed: demonstrations of {parent.run_id} were chosen from {chosen_from}, those "
            f"of this run from {source}. This run merges answers of both."
        )
    changed = changed_sources(parent, run)
    if (parent.version, parent.git_commit) != (run.version, run.git_commit):
        changed.insert(0, "Crosscheck")
    if changed:
        yield (
            f"Since {parent.run_id} was made, {shorten(changed, 5)} changed. This run merges answers of both."
        )


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
    with launched(plan.settings, control, server, preparation) as prefect:
        repeat = as_flow(rerun(plan, control, prefect.preparation), "rerun", "rerun {settings.run}")
        for beginning in beginnings(control, prefect.connect):
            with beginning:
                state = prefect.loop.run(repeat(plan.asked_for, return_state=True))
        control.result = prefect.loop.run(result_of(state))
    assert control.result is not None
    return control.result
