"""Finds what `response_mode: auto` is: the strictest mode that an endpoint takes, by one small request in each mode."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks.backbone.endpoint.client import EndpointBackbone, format_of
from tasks.backbone.endpoint.failures import Refusal, is_out_of_tokens
from tasks.backbone.endpoint.retry_policy import FIRST_PAUSE_S, KEPT
from tasks.backbone.endpoint.wire import address_of
from tasks.backbone.kind import kind_of
from tasks.backbone.protocol import Message, Request
from tasks.backbone.replies.json_text import reply_schema
from tasks.core.errors import BackboneError, ConfigurationError, CrosscheckError, StoreError
from tasks.core.files import atomic_write_text
from tasks.settings.backbone import AUTO, BackboneSettings

REPLY_TOKENS = 16
"""Limit of the reply to a request that only tests whether a response mode is accepted."""
TRIES = 3
"""How often such a request is sent if the endpoint is busy."""


class ProbedReply(BaseModel):
    """A query, and what it uses."""

    sql: str
    tables: list[str]
    better: Literal[1, 2]


PROBE = Request(
    (
        Message("system", "You write JSON."),
        Message("user", 'Write this as one JSON object: {"sql": "SELECT 1", "tables": [], "better": 1}'),
    ),
    reply_schema(ProbedReply),
)
"""A request with what the requests of the stages have: instructions, and a schema of texts, lists and numbers."""


class KnownEndpoint(BaseModel):
    """What a model at an endpoint takes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    response_mode: str
    """The strictest response mode."""
    refused: dict[str, str] = Field(default_factory=dict)
    """Response modes that the endpoint refused, each with the reason."""
    system_role: bool = True
    """Whether the model's chat template has the role "system"."""

    def describe(self, model: str) -> str:
        """Return which mode "auto" is, and why it is no stricter one."""
        why = "".join(
            f"; {name} is refused: {reason[:200].rstrip('.')}" for name, reason in self.refused.items()
        )
        role = "" if self.system_role else ", which has no system role"
        return f"response_mode auto is {self.response_mode} for {model}{role}{why}."


@dataclass(frozen=True)
class KnownEndpoints:
    """The known endpoints of a working folder: one file for each endpoint and model."""

    folder: Path
    note: Callable[[str], object] = bool  # takes a sentence for the user; `bool` drops it

    def find(self, settings: BackboneSettings) -> KnownEndpoint | None:
        """Return what is known about a backbone's endpoint and model; None for nothing."""
        try:
            return KnownEndpoint.model_validate_json(self._file(settings).read_bytes())
        except (OSError, ValidationError):
            return None

    def keep(self, settings: BackboneSettings, endpoint: KnownEndpoint) -> None:
        """Keep what was found about a backbone's endpoint and model."""
        file = self._file(settings)
        try:
            atomic_write_text(file, endpoint.model_dump_json(indent=1))
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}.") from error

    def _file(self, settings: BackboneSettings) -> Path:
        kind = [] if settings.kind == "openai" else [settings.kind]
        name = json.dumps([address_of(settings), settings.model, *kind])
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"


async def find_response_mode(
    settings: BackboneSettings, endpoints: KnownEndpoints | None
) -> BackboneSettings:
    """Return the settings with the mode that "auto" stands for; unchanged for another mode, or without `endpoints`.

    What is found is kept in `endpoints`, so that later runs have the same mode: it is part of each request's cache key.
    """
    if settings.response_mode != AUTO or endpoints is None or not kind_of(settings).endpoint:
        return settings
    accepted = endpoints.find(settings)
    cost_note = ""
    if accepted is None:
        async with EndpointBackbone(settings) as endpoint:
            try:
                await endpoint.models()  # costs nothing, and shows whether the endpoint answers at all
            except Refusal as refusal:
                if refusal.kind in ("connection", "timeout"):
                    raise _error(endpoint, refusal) from refusal
            accepted = await _find_strictest_mode(endpoint, settings)
        cost_note = " This was found with one small request, which the cost of the run does not contain."
        endpoints.keep(settings, accepted)
    endpoints.note(accepted.describe(settings.model) + cost_note)
    system_role = settings.system_role and accepted.system_role
    return settings.model_copy(update={"response_mode": accepted.response_mode, "system_role": system_role})


async def _find_strictest_mode(
    endpoint: EndpointBackbone, settings: BackboneSettings, *, system_role: bool = True
) -> KnownEndpoint:
    """Send the request in one mode after another, until one is accepted; if none is, without the system role.

    The modes are tried from the strictest on. `system_role` is part of the result: False without that role.
    """
    refused: dict[str, Refusal] = {}
    modes = format_of(settings).modes
    for mode in modes:
        refusal = await _refusal_in_mode(endpoint, settings, mode)
        if refusal is None:
            break
        if refusal.kind not in ("request", "settings", "server"):  # the mode cannot be the reason
            raise _error(endpoint, refusal)
        refused[mode] = refusal
    if len(refused) == len(modes):
        if not settings.system_role or "system_role" not in format_of(settings).takes:
            raise _error(endpoint, refused[mode])
        without_role = settings.model_copy(update={"system_role": False})
        return await _find_strictest_mode(endpoint, without_role, system_role=False)
    for refused_mode, refusal in refused.items():
        # A server error may have had another reason than the mode: then the mode is accepted now.
        if refusal.kind == "server" and await _refusal_in_mode(endpoint, settings, refused_mode) is None:
            mode = refused_mode
            break
    stricter_modes = modes[: modes.index(mode)]
    reasons = {name: refused[name].message for name in stricter_modes}
    return KnownEndpoint(response_mode=mode, refused=reasons, system_role=system_role)


async def _refusal_in_mode(
    endpoint: EndpointBackbone, settings: BackboneSettings, mode: str, max_requests: int = TRIES
) -> Refusal | None:
    """Send the request in a mode, and again if the endpoint is busy; return why it is refused, None if it is not."""
    limit_names = [name for name in ("max_tokens", "max_completion_tokens") if getattr(settings, name)]
    small_limit = dict.fromkeys(limit_names, REPLY_TOKENS)
    body = format_of(settings).body(PROBE, settings.model_copy(update={"response_mode": mode, **small_limit}))
    try:
        await endpoint.ask_once(body)
        return None
    except Refusal as refusal:
        if is_out_of_tokens(refusal):  # the mode was accepted, and the small limit of tokens reached
            return None
        if not refusal.transient or max_requests == 1:
            return refusal
        pause = refusal.retry_after_s
    await asyncio.sleep(FIRST_PAUSE_S if pause is None else min(pause, settings.max_wait_s))
    return await _refusal_in_mode(endpoint, settings, mode, max_requests - 1)


def _error(endpoint: EndpointBackbone, refusal: Refusal) -> CrosscheckError:
    message = endpoint.message(f"{refusal.message.rstrip('.')}. {refusal.advice}".rstrip())
    if refusal.transient:
        return BackboneError(f"{message} {KEPT}", transient=True, fatal=True)
    return ConfigurationError(message)
