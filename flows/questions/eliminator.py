"""The eliminator: SEA-SQL's second backbone, named by the pipeline and described in `conf/backbones`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.backbone.kinds.opening import open_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Backbone
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_backbone_settings
from tasks.settings.pipeline import PipelineSettings, SeaSqlSettings


def asks_eliminator(settings: EvaluationSettings) -> bool:
    """Return whether a run asks a model to eliminate bias; a recording has the replies of the one that was asked."""
    return _eliminator(settings.pipeline) is not None and not kind_of(settings.backbone).replays


def eliminator_settings(settings: EvaluationSettings, *, asked: bool = True) -> BackboneSettings | None:
    """Return the settings of a run's eliminator; None where it needs none, or a recording has its replies.

    `asked` is as in `check_backbone`.

    Raises:
        ConfigurationError: there is no backbone of that name, or it cannot be asked.
    """
    name = _eliminator(settings.pipeline)
    if name is None or not asks_eliminator(settings):
        return None
    found = load_backbone_settings(find_conf(), name)
    check_backbone(found, asked=asked)
    return found


@asynccontextmanager
async def open_eliminator(
    settings: EvaluationSettings,
    own: MeteredBackbone,
    wrap: Callable[[Backbone, BackboneSettings], Backbone],
    cache: ReplyCache | None,
    stop_now: asyncio.Event | None = None,
) -> AsyncIterator[MeteredBackbone | None]:
    """Open a run's eliminator; None where it needs none.

    Args:
        settings: settings of the evaluation.
        own: the run's own backbone, which is open; if it serves a recording, it is the eliminator too.
        wrap: adds what the run's own has too: its budget, its observer.
        cache: where paid replies are kept; None to keep none.
        stop_now: once this is set, calls in flight are given up.

    Raises:
        ConfigurationError: as `eliminator_settings`.
    """
    found = eliminator_settings(settings)
    if found is None:
        yield own if _eliminator(settings.pipeline) else None
        return
    async with open_backbone(found, cache=cache, stop_now=stop_now) as backbone:
        yield MeteredBackbone.of(wrap(backbone, found), found)


def _eliminator(pipeline: PipelineSettings) -> str | None:
    """Return the name of a pipeline's eliminator; None where it needs none."""
    if not isinstance(pipeline, SeaSqlSettings) or not pipeline.bias_elimination.enabled:
        return None
    return pipeline.eliminator
