"""Which wire format a backbone's settings name."""

from tasks.backbone.endpoint.formats.chat import CHAT
from tasks.backbone.endpoint.formats.messages import MESSAGES
from tasks.backbone.endpoint.formats.responses import RESPONSES
from tasks.backbone.endpoint.formats.wire import WireFormat
from tasks.settings.backbone import BackboneSettings

_FORMATS = {"openai-responses": RESPONSES, "anthropic": MESSAGES}


def format_of(settings: BackboneSettings) -> WireFormat:
    """Return the wire format of a kind of backbones; of every other kind that has an endpoint, OpenAI's chat."""
    return _FORMATS.get(settings.kind, CHAT)
