"""The built-in kinds of backbones: an OpenAI-compatible endpoint, the offline model, a recording."""

from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.client import OpenAIBackbone
from tasks.backbone.kinds.kind import BackboneKind
from tasks.backbone.protocol import Backbone
from tasks.backbone.recordings.replay import open_recording
from tasks.settings.backbone import BackboneSettings
from tasks.settings.kinds import BACKBONES


def _offline(settings: BackboneSettings) -> Backbone:
    from tasks.backbone.offline import OfflineBackbone

    return OfflineBackbone()


BACKBONES.register("openai")(BackboneKind(OpenAIBackbone, check=Access.of, endpoint=True))
BACKBONES.register("offline")(BackboneKind(_offline, paid=False, samples=False))
BACKBONES.register("replay")(BackboneKind(open_recording, check=open_recording, paid=False, replays=True))
