"""Prompts and replies of model calls: found in the reply cache or asked again, and written as a recording."""

import asyncio
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.evaluate.demonstration_search import DemonstrationSearch, QuestionInputs
from flows.evaluate.preparation import is_free, settings_of_run
from flows.evaluate.runner import Resources
from flows.runtime.control import Control, Progress
from flows.runtime.folders import Folders
from tasks.backbone.cache.entry import LENGTH
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.kind import check_backbone
from tasks.backbone.protocol import TOOL_CALLS, Origin, as_texts, digest_of_canonical, messages_of
from tasks.backbone.recordings import Exchange, RecordedReply, write_recording
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import CrosscheckError
from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.core.wording import counted
from tasks.results.run_record import RunRecord
from tasks.scoring.scores import QuestionScore
from tasks.settings.evaluation import EvaluationSettings, TrackingSettings
from tasks.settings.home import find_replies
from tasks.settings.pipeline import has_oracle
from tasks.stages.question_run import QuestionRun


@dataclass(frozen=True)
class Exchanges:
    """Messages and replies of questions."""

    # exchange by the key of its request (`Call.request`)
    by_request: Mapping[str, Exchange] = field(default_factory=dict)
    problem: str = ""  # why some are missing and how to get them; "" if none is


def read_exchanges(run: RunRecord, scores: Sequence[QuestionScore], folders: Folders) -> Exchanges:
    """Find the messages and replies of a run's questions.

    Replies of models are in the reply cache. Those of the offline backbone and of recordings are not: such questions
    are asked again, without a cost and without changing anything, and only replies to the very same requests count.
    """
    if run.made_elsewhere:
        return Exchanges()  # the turns of a trajectory hold all that is known
    requests = dict.fromkeys(request for score in scores for request in _request_keys(score))
    if not requests:
        return Exchanges()
    location = find_replies(folders.home)
    entries: dict[str, Exchange] = {}
    if not isinstance(location, Path) or location.exists():
        with open_reply_cache(location) as cache:
            entries = {key: exchange for key in requests if (exchange := cached_exchange(cache, key))}
    lacking = [score for score in scores if any(request not in entries for request in _request_keys(score))]
    if not lacking:
        return Exchanges(entries)
    try:
        settings = settings_of_run(run, (), data=str(folders.data), home=str(folders.home.path))
        settings = settings.model_copy(update={"tracking": TrackingSettings()})
        if is_free(settings) and not has_oracle(settings.pipeline):  # asking again reads no gold SQL
            check_backbone(settings.backbone)
            repeated = asyncio.run(_ask_again(settings, run, lacking, folders))
            entries |= {key: repeated[key] for key in requests if key in repeated}
            reason = "the prompts or the data have changed since the run"
        else:
            cache_name = location if isinstance(location, Path) else "PostgreSQL"
            reason = f"the reply cache ({cache_name}) no longer has them, or they are damaged there"
    except CrosscheckError as error:
        reason = str(error)
    missing = len(requests) - len(entries)
    if not missing:
        return Exchanges(entries)
    ids = shlex.quote(",".join(score.question.id for score in lacking)) if len(lacking) < 20 else "IDS"
    return Exchanges(
        entries,
        f"The prompts and replies of {missing:,} of {counted(len(requests), 'request')} are not stored: {reason}. "
        f'"crosscheck rerun {run.run_id} --questions {ids} --fresh" sends their requests again.',
    )


def _request_keys(score: QuestionScore) -> Iterator[str]:
    return (call.request for record in score.outcome.stages for call in record.calls)


def cached_exchange(cache: ReplyCache, key: str) -> Exchange | None:
    """Return a cached request and the reply to it; None if it is not cached, or damaged."""
    entry = cache.entry(key)
    if entry is None:
        return None
    return Exchange(
        tuple(as_texts(messages_of(entry.request))),
        entry.text,
        key,
        digest_of_canonical(entry.request),
        truncated=LENGTH in entry.finish,
        tool_calls=entry.finish.startswith(TOOL_CALLS),
    )


async def _ask_again(
    settings: EvaluationSettings, run: RunRecord, scores: Sequence[QuestionScore], folders: Folders
) -> dict[str, Exchange]:
    """Answer questions again, by a backbone without a cost, and return its prompts and replies by their key."""
    questions = tuple(score.question for score in scores)
    progress = Progress()
    benchmark = folders.benchmark_of(run)
    sample_rows = settings.pipeline.prompt.sample_rows
    names = sorted({question.database_id for question in questions})
    databases = [open_benchmark_database(benchmark, name, sample_rows, folders.home.path) for name in names]
    extras = DemonstrationSearch(benchmark, settings, progress).choose(questions)
    async with Resources.open(settings, Control(progress), persistent=False, traced=True) as resources:
        runner = resources.runner(QuestionInputs({database.id: database for database in databases}, extras))
        for question in questions:
            await runner.run(QuestionRun(question))
        assert resources.observed is not None
        return {exchange.key: exchange for exchange in resources.observed}


def record(
    path: Path,
    questions: Sequence[Question],
    outcomes: Mapping[str, Outcome],
    observed: Iterable[Exchange],
    cache: ReplyCache,
    note: Callable[[Mapping[str, Any]], None],
) -> str:
    """Write the recording of an evaluation whose every question has its outcome; return a sentence on it.

    Replies of this run come from the observed backbone, those of restored stages from the reply cache. Backbones
    without cached replies are free, and answer all requests again.

    `note` keeps the name and sha256 of the recording with the run, by which a repetition of the evaluation knows its
    own. It is called before the recording takes its name, because this process may be killed at any time.
    """
    lost: list[Origin] = []
    answered = [question for question in questions if question.id in outcomes]
    replies = _recorded_replies(answered, outcomes, cache, lost, observed)
    count = write_recording(
        path, replies, lambda sha256: note({"recorded": {"file": str(path), "sha256": sha256}})
    )
    message = (
        f"{counted(count, 'reply', 'was')} recorded in {path}, for {counted(len(answered), 'question')}."
    )
    if lost:
        message += (
            f" {counted(len(lost), 'reply', 'is')} missing, the first at {lost[0]}: replies of restored stages that "
            "the reply cache no longer has, or that are damaged there."
        )
    return message


def _recorded_replies(
    questions: Sequence[Question],
    outcomes: Mapping[str, Outcome],
    cache: ReplyCache,
    lost: list[Origin],
    observed: Iterable[Exchange],
) -> Iterator[RecordedReply]:
    """Yield the replies to questions as lines of a recording; `lost` receives the places of those that are gone."""
    by_origin: dict[Origin | None, Exchange] = {}
    by_key: dict[str, Exchange] = {}
    for exchange in observed:
        by_origin[exchange.origin] = exchange
        by_key[exchange.key] = exchange
    for question in questions:
        for stage_record in outcomes[question.id].stages:
            for call in stage_record.rounds:
                origin = Origin(question.id, question.database_id, stage_record.label, call.round)
                exchanged = by_origin.get(origin) or by_key.get(call.request)
                exchanged = exchanged or cached_exchange(cache, call.request)
                if exchanged is None:
                    lost.append(origin)
                    continue
                yield RecordedReply(
                    question=question.id,
                    database=question.database_id,
                    stage=stage_record.label,
                    round=call.round,
                    reply=exchanged.reply,
                    request=exchanged.digest,
                    model=call.model,
                    usage=call.usage,
                    truncated=exchanged.truncated,
                    tool_calls=exchanged.tool_calls,
                )
