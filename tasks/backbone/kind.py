"""Kinds of backbones: how each is created, configured and checked; the built-in ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.backbone.endpoint.access import Access
from tasks.backbone.endpoint.client import EndpointBackbone, format_of
from tasks.backbone.endpoint.connection import require
from tasks.backbone.protocol import Backbone
from tasks.backbone.recordings import open_recording
from tasks.backbone.replies.format import ReplyFormat
from tasks.backbone.tiers import BATCH, FLEX
from tasks.core.errors import ConfigurationError, did_you_mean
from tasks.core.outcome import STANDARD
from tasks.core.registry import called, of_type
from tasks.settings.backbone import REPLY_FORMATS, BackboneSettings, MessagesSettings, ResponsesSettings
from tasks.settings.kinds import BACKBONES, PIPELINES, STAGES


@dataclass(frozen=True)
class BackboneKind:
    """One kind of backbones: what `kind:` in a backbone's settings names."""

    # makes a backbone from its settings; if that is an async context manager, it is entered for the run, and if it has
    # a method `wind_down`, that is called when nothing more is to be sent
    make: Callable[[Any], Backbone]
    settings: type[BackboneSettings] = BackboneSettings  # the model of its settings
    # finds what would prevent requests, before anything is paid; raises ConfigurationError; `bool` finds nothing
    check: Callable[[Any], object] = bool
    paid: bool = True  # whether replies cost money or time: they are then kept in the reply cache
    replays: bool = False  # whether it answers from a recording
    samples: bool = True  # whether it can answer a request again at a temperature above 0
    # whether a backbone with these settings calls the tools that a request offers
    tools: Callable[[Any], bool] = lambda settings: False
    endpoint: bool = False  # whether it sends the requests to an endpoint, as `EndpointBackbone` does
    tiers: frozenset[str] = frozenset()  # beside the standard one: those in which it can send a request

    def create(self, settings: BackboneSettings) -> Backbone:
        """Make a backbone; one of a user's own may lack the identity that every cache key needs."""
        backbone = called(self.make, settings)
        origin = f"{type(backbone).__name__} has, as its identity,"
        of_type(Mapping, getattr(backbone, "identity", None), origin)
        return backbone


def kind_of(settings: BackboneSettings) -> BackboneKind:
    """Return the kind of a backbone."""
    kind: BackboneKind = BACKBONES.get(settings.kind)
    return kind


def check_backbone(settings: BackboneSettings, *, sends_requests: bool = True) -> None:
    """Check before the first paid call that a backbone can be used.

    With `sends_requests` False, calls are only estimated: a paid backbone then needs no key.
    """
    for name in (settings.reply, *settings.reply_by_stage.values()):
        reply_format = REPLY_FORMATS.get(name)
        if not (isinstance(reply_format, type) and issubclass(reply_format, ReplyFormat)):
            raise ConfigurationError(f"{name} is no reply format: it must be a subclass of ReplyFormat.")
    if settings.reply_by_stage:
        PIPELINES.names()  # imports their stages
    for stage in settings.reply_by_stage:
        if stage not in STAGES:
            raise ConfigurationError(
                f'backbone.reply_by_stage: there is no stage "{stage}". {did_you_mean(stage, STAGES)}'
            )
    tiers = (STANDARD, *sorted(kind_of(settings).tiers))
    if settings.tier not in tiers:
        raise ConfigurationError(
            f"backbone.tier={settings.tier}: the kind {settings.kind} has no such tier. Set it to {' or '.join(tiers)}."
        )
    if sends_requests or not kind_of(settings).paid:
        kind_of(settings).check(settings)


def _offline(settings: BackboneSettings) -> Backbone:
    from tasks.backbone.offline import OfflineBackbone

    return OfflineBackbone()


def _usable(settings: BackboneSettings) -> None:
    """Check that there is a model, that the key's program gives a key, and that the provider's client is installed."""
    if not settings.model:
        raise ConfigurationError(
            f'Backbone "{settings.name}": backbone.model is missing. Write the name by which the endpoint knows the '
            "model; `crosscheck check --url URL` lists its models."
        )
    if (command := Access.of(settings).command) is not None:
        command.run()
    require(format_of(settings).sdk)


_ENDPOINT = BackboneKind(
    EndpointBackbone,
    check=_usable,
    tools=lambda settings: format_of(settings).tools(settings),
    endpoint=True,
    tiers=frozenset({FLEX, BATCH}),
)

BACKBONES.register("openai")(_ENDPOINT)
BACKBONES.register("openai-responses")(replace(_ENDPOINT, settings=ResponsesSettings))
BACKBONES.register("anthropic")(replace(_ENDPOINT, settings=MessagesSettings, tiers=frozenset({BATCH})))
BACKBONES.register("offline")(BackboneKind(_offline, paid=False, samples=False, tools=lambda settings: True))
BACKBONES.register("replay")(
    BackboneKind(open_recording, check=open_recording, paid=False, replays=True, tools=lambda settings: True)
)
