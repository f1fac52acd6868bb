"""Prompts and replies of questions' model calls: from the reply cache, or asked again where that costs nothing."""

import asyncio
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flows.evaluate.backbones import eliminator_settings, writer_settings
from flows.evaluate.demonstrations import demonstrations_for
from flows.evaluate.resources import Resources
from flows.evaluate.runner import QuestionInputs
from flows.runtime.control import Control, Progress
from flows.runtime.folders import Folders
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.backbone.protocol import messages_of, shown
from tasks.backbone.recordings import Exchange
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.results.run_record import RunRecord
from tasks.scoring.report import QuestionScore
from tasks.settings.evaluation import EvaluationSettings, TrackingSettings
from tasks.settings.home import Home, find_replies
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
    requests = {request: None for score in scores for request in _requests(score)}
    if not requests:
        return Exchanges()
    entries = _cached(list(requests), folders.home)
    lacking = [score for score in scores if any(request not in entries for request in _requests(score))]
    if not lacking:
        return Exchanges(entries)
    try:
        settings = _settings(run, lacking, folders)
        if _is_free(settings):
            again = asyncio.run(_ask_again(settings, run, lacking, folders))
            entries |= {key: again[key] for key in requests if key in again}
            why = "the prompts or the data have changed since the run"
        else:
            why = f"the reply cache ({_place(folders.home)}) no longer has them, or they are damaged there"
    except CrosscheckError as error:
        why = str(error)
    missing = len(requests) - len(entries)
    if not missing:
        return Exchanges(entries)
    ids = shlex.quote(",".join(score.question.id for score in lacking)) if len(lacking) < 20 else "IDS"
    return Exchanges(
        entries,
        f"{missing:,} of {len(requests):,} prompts and replies are not stored: {why}. "
        f'"crosscheck rerun {run.run_id} --questions {ids} --fresh" sends their requests again.',
    )


def _requests(score: QuestionScore) -> Iterator[str]:
    return (call.request for record in score.outcome.stages for call in record.calls)


def _place(home: Home) -> str:
    place = find_replies(home)
    return str(place) if isinstance(place, Path) else "PostgreSQL"


def _cached(keys: list[str], home: Home) -> dict[str, Exchange]:
    place = find_replies(home)
    if isinstance(place, Path) and not place.exists():
        return {}
    with open_reply_cache(place) as cache:
        return {key: exchange for key in keys if (exchange := cached_exchange(cache, key))}


def cached_exchange(cache: ReplyCache, key: str) -> Exchange | None:
    """Return the messages of a cached request and the reply to them; None if it is not cached, or damaged."""
    entry = cache.entry(key)
    if entry is None:
        return None
    return Exchange(tuple(shown(messages_of(entry.request))), entry.text)


def _settings(run: RunRecord, scores: Sequence[QuestionScore], folders: Folders) -> EvaluationSettings:
    """Return the settings of the run for these questions alone."""
    content: dict[str, Any] = json.loads(json.dumps(run.settings))
    ids = ",".join(score.question.id for score in scores)
    places = {"questions": ids, "data": str(folders.data), "home": str(folders.home.path)}
    tracking = TrackingSettings().model_dump()
    try:
        return EvaluationSettings.model_validate_json(json.dumps(content | places | {"tracking": tracking}))
    except ValidationError:
        raise ConfigurationError("the settings of the run are not valid in this release") from None


def _is_free(settings: EvaluationSettings) -> bool:
    """Return whether asking again costs nothing and reads no gold SQL."""
    if kind_of(settings.backbone).paid or has_oracle(settings.pipeline):
        return False
    check_backbone(settings.backbone)
    eliminator, writers = eliminator_settings(settings), writer_settings(settings).writers
    others = (*writers, *([eliminator] if eliminator else ()))
    return not any(kind_of(other).paid for other in others)


async def _ask_again(
    settings: EvaluationSettings, run: RunRecord, scores: Sequence[QuestionScore], folders: Folders
) -> dict[str, Exchange]:
    questions, progress = tuple(score.question for score in scores), Progress()
    benchmark = folders.benchmark_of(run)
    sample_rows = settings.pipeline.prompt.sample_rows
    names = sorted({question.database_id for question in questions})
    opened = [open_benchmark_database(benchmark, name, sample_rows, folders.home.path) for name in names]
    extras, _ = demonstrations_for(questions, benchmark, settings, progress)
    async with Resources.open(settings, Control(progress), persistent=False, traced=True) as resources:
        runner = resources.runner(QuestionInputs({database.id: database for database in opened}, extras))
        for question in questions:
            await runner.run(QuestionRun(question))
        assert resources.observed is not None
        return {seen.key: seen.exchange for seen in resources.observed}
