"""The eliminator: SEA-SQL's second backbone, named by the pipeline and described in `conf/backbones`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.opening import RunResources, open_backbone
from tasks.settings.backbone import BackboneSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_backbone_settings
from tasks.settings.pipeline import PipelineSettings, SeaSqlSettings


def asks_eliminator(settings: EvaluationSettings) -> bool:
    """Return whether a run asks a model to eliminate bias; a recording already has its replies."""
    return _eliminator(settings.pipeline) is not None and not kind_of(settings.backbone).replays


def eliminator_settings(
    settings: EvaluationSettings, *, sends_requests: bool = True
) -> BackboneSettings | None:
    """Return the settings of a run's eliminator; None where it needs none, or a recording has its replies.

    It has the epoch of the run's backbone, if that has one. `sends_requests` is as in `check_backbone`.
    """
    name = _eliminator(settings.pipeline)
    if name is None or not asks_eliminator(settings):
        return None
    backbone = load_backbone_settings(find_conf(), name)
    check_backbone(backbone, sends_requests=sends_requests)
    epoch = settings.backbone.epoch
    return backbone if epoch is None else backbone.model_copy(update={"epoch": epoch})


@asynccontextmanager
async def open_eliminator(
    settings: EvaluationSettings, own: MeteredBackbone, resources: RunResources
) -> AsyncIterator[MeteredBackbone | None]:
    """Open a run's eliminator, which shares the resources of the run's backbones; None where it needs none.

    If the run's own backbone, which is open, serves a recording, it is the eliminator too.
    """
    named = eliminator_settings(settings)
    if named is None:
        yield own if _eliminator(settings.pipeline) else None
        return
    async with open_backbone(named, resources) as backbone:
        yield backbone


def _eliminator(pipeline: PipelineSettings) -> str | None:
    """Return the name of a pipeline's eliminator; None where it needs none."""
    if not isinstance(pipeline, SeaSqlSettings) or not pipeline.bias_elimination.enabled:
        return None
    return pipeline.eliminator
