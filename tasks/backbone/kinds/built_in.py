"""The built-in kinds of backbones: an endpoint with one of three protocols, the offline model, a recording."""

from dataclasses import replace

from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.connection import imported
from tasks.backbone.endpoint.formats.choice import format_of
from tasks.backbone.kinds.kind import BackboneKind
from tasks.backbone.protocol import Backbone
from tasks.backbone.recordings.replay import open_recording
from tasks.backbone.tiers import BATCH, FLEX
from tasks.settings.backbone import BackboneSettings
from tasks.settings.kinds import BACKBONES
from tasks.settings.protocols import MessagesSettings, ResponsesSettings


def _offline(settings: BackboneSettings) -> Backbone:
    from tasks.backbone.offline import OfflineBackbone

    return OfflineBackbone()


def _usable(settings: BackboneSettings) -> None:
    if (command := Access.of(settings).command) is not None:
        command.run()
    imported(format_of(settings).sdk)


def _any(settings: BackboneSettings) -> bool:
    return True


def _tools(settings: BackboneSettings) -> bool:
    return format_of(settings).tools(settings)


_ENDPOINT = BackboneKind(
    EndpointBackbone, check=_usable, tools=_tools, endpoint=True, tiers=frozenset({FLEX, BATCH})
)

BACKBONES.register("openai")(_ENDPOINT)
BACKBONES.register("openai-responses")(replace(_ENDPOINT, settings=ResponsesSettings))
BACKBONES.register("anthropic")(replace(_ENDPOINT, settings=MessagesSettings, tiers=frozenset({BATCH})))
BACKBONES.register("offline")(BackboneKind(_offline, paid=False, samples=False, tools=_any))
BACKBONES.register("replay")(
    BackboneKind(open_recording, check=open_recording, paid=False, replays=True, tools=_any)
)
