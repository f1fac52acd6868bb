"""The interface for batches of an endpoint, by its protocol."""

from tasks.backbone.batches.anthropic import AnthropicBatches
from tasks.backbone.batches.openai import OpenAIBatches
from tasks.backbone.batches.provider import BatchProvider
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.formats.choice import format_of
from tasks.settings.backbone import BackboneSettings


def provider_of(endpoint: EndpointBackbone, settings: BackboneSettings) -> BatchProvider:
    """Return the interface for batches of an endpoint."""
    wire = format_of(settings)
    if wire.sdk == "anthropic":
        return AnthropicBatches(endpoint.exchange)
    return OpenAIBatches(endpoint.exchange, wire.path)
