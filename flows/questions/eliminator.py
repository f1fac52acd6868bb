"""The eliminator: SEA-SQL's second backbone, named by the pipeline and described in `conf/backbones`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.kinds.kind import check_backbone
from tasks.backbone.kinds.opening import open_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.reply_formats import ReplyFormats
from tasks.settings.backbone import BackboneSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_backbone_settings
from tasks.settings.pipeline import PipelineSettings, SeaSqlSettings


def eliminator_settings(pipeline: PipelineSettings, *, asked: bool = True) -> BackboneSettings | None:
    """Return the settings of a pipeline's eliminator; None where it needs none. `asked` is as in `check_backbone`.

    Raises:
        ConfigurationError: there is no backbone of that name, or it cannot be asked.
    """
    if not isinstance(pipeline, SeaSqlSettings):
        return None
    if pipeline.eliminator is None or not pipeline.bias_elimination.enabled:
        return None
    settings = load_backbone_settings(find_conf(), pipeline.eliminator)
    check_backbone(settings, asked=asked)
    return settings


@asynccontextmanager
async def open_eliminator(
    pipeline: PipelineSettings, cache: ReplyCache | None, stop_now: asyncio.Event | None = None
) -> AsyncIterator[MeteredBackbone | None]:
    """Open a pipeline's eliminator for one run; None where it needs none.

    Raises:
        ConfigurationError: as `eliminator_settings`.
    """
    settings = eliminator_settings(pipeline)
    if settings is None:
        yield None
        return
    async with open_backbone(settings, cache=cache, stop_now=stop_now) as backbone:
        yield MeteredBackbone(backbone, ReplyFormats.of(settings))
