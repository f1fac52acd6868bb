"""What a run of questions holds open: the backbones, the caches, the processes that run SQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.questions.eliminator import open_eliminator
from flows.runtime.control import current_control
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.factory import open_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Backbone
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.stores import find_replies


@dataclass(frozen=True)
class Resources:
    """What a run holds open.

    Attributes:
        backbone: who is asked.
        eliminator: who eliminates bias (SEA-SQL); None where none is configured.
        workers: where SQL runs.
        replies: the model replies that were paid for.
        verdicts: what earlier runs found when they compared SQL with gold.
    """

    backbone: Backbone
    eliminator: MeteredBackbone | None
    workers: SqlWorkers
    replies: ReplyCache
    verdicts: VerdictCache


@asynccontextmanager
async def open_resources(settings: EvaluationSettings) -> AsyncIterator[Resources]:
    """Open everything for one run, and close it in the reverse order, calls in flight first.

    Raises:
        CrosscheckError: in the user's words, what cannot be opened.
    """
    home, hurry = Home(Path(settings.home)), current_control().hurry
    with open_reply_cache(find_replies(home)) as replies, VerdictCache(home.verdicts) as verdicts:
        async with (
            SqlWorkers() as workers,
            open_backbone(settings.backbone, cache=replies, hurry=hurry) as backbone,
            open_eliminator(settings.pipeline, cache=replies, hurry=hurry) as eliminator,
        ):
            yield Resources(backbone, eliminator, workers, replies, verdicts)
