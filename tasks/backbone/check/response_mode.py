"""The response mode that stands for "auto": the strictest one that an endpoint takes."""

import asyncio
import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel

from tasks.backbone.check.endpoint import Endpoint, Sent
from tasks.backbone.check.known import KnownEndpoint, KnownEndpoints
from tasks.backbone.check.listing import first_look, unreachable
from tasks.backbone.endpoint.formats.identity import OPENAI_URL, public_url
from tasks.backbone.endpoint.retry_policy import FIRST_PAUSE_S, KEPT
from tasks.backbone.protocol import Message, Request
from tasks.backbone.replies.json_schema import reply_schema
from tasks.core.errors import BackboneError, ConfigurationError, CrosscheckError
from tasks.core.wording import UNKNOWN
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


@dataclass(frozen=True)
class _Found:
    """The strictest mode that is accepted, why stricter ones are not, the accepted request, and its system role."""

    mode: str
    refused: Mapping[str, str]
    sent: Sent
    system_role: bool = True


async def find_response_mode(settings: BackboneSettings, known: KnownEndpoints) -> BackboneSettings:
    """Return the settings with the response mode that stands for "auto"; unchanged if they name another.

    What is known of the endpoint and model is used. Otherwise GET /models is sent, and for "auto" one small request in
    each mode, from the strictest to the first that is accepted. What is found is kept, so that later runs have the same
    mode, which is part of the cache key of every request.

    Raises:
        ConfigurationError: the endpoint refuses the request in every mode, or does not accept the key or the model.
        BackboneError: the mode is needed, and the endpoint does not answer.
        StoreError: what is found cannot be kept.
    """
    kept, auto = known.find(settings), settings.response_mode == AUTO
    if kept is not None and (kept.response_mode or not auto):
        if auto:
            known.note(f"{_is(settings, kept)}.")
        return _with_mode(settings, kept)
    async with Endpoint(settings) as endpoint:
        try:
            kept = kept or await first_look(endpoint, known.note)
        except BackboneError as error:
            if auto:
                raise unreachable(settings, error) from error
            return settings  # all replies may be cached
        if auto:
            kept = _with_found(kept, found := await _strictest(endpoint, settings))
            usage = found.sent.answer.usage if found.sent.answer else None
            tokens = (
                f"{usage.input} input and {usage.output} output tokens"
                if usage and usage.input is not None and usage.output is not None
                else f"{UNKNOWN} number of tokens"
            )
            known.note(
                f"{_is(settings, kept)}. This was found with one small request ({tokens}), "
                "which the cost of the run does not contain."
            )
    known.keep(settings, kept)
    return _with_mode(settings, kept)


def _with_mode(settings: BackboneSettings, kept: KnownEndpoint) -> BackboneSettings:
    if settings.response_mode != AUTO:
        return settings
    system_role = settings.system_role and kept.system_role
    return settings.model_copy(update={"response_mode": kept.response_mode, "system_role": system_role})


def _with_found(kept: KnownEndpoint, found: _Found) -> KnownEndpoint:
    now = datetime.datetime.now(datetime.UTC)
    update = {"response_mode": found.mode, "refused": dict(found.refused), "seen": now}
    return kept.model_copy(update=update | {"system_role": found.system_role})


def _is(settings: BackboneSettings, kept: KnownEndpoint) -> str:
    """Return which mode "auto" is, and why it is no stricter one."""
    why = "".join(f"; {name} is refused: {reason[:200].rstrip('.')}" for name, reason in kept.refused.items())
    role = "" if kept.system_role else ", which has no system role"
    return f"response_mode auto is {kept.response_mode} for {settings.model}{role}{why}"


async def _strictest(endpoint: Endpoint, settings: BackboneSettings) -> _Found:
    """Send the request in one mode after another, until one is accepted; if none is, without the system role."""
    refused: dict[str, Sent] = {}
    modes = endpoint.format.modes
    for mode in modes:
        sent = await _send(endpoint, settings, mode)
        if sent.took:
            break
        refused[mode] = sent
        if sent.refusal and sent.refusal.kind not in ("request", "settings", "server"):
            raise _error(settings, sent)
    else:
        if settings.system_role and "system_role" in endpoint.format.takes:
            without = settings.model_copy(update={"system_role": False})
            return replace(await _strictest(endpoint, without), system_role=False)
        raise _error(settings, sent)
    for stricter in [
        name for name, each in refused.items() if each.refusal and each.refusal.kind == "server"
    ]:
        # The server error may have had another reason than the mode, which this request shows.
        if (again := await _send(endpoint, settings, stricter)).took:
            mode, sent = stricter, again
            break
    before = modes[: modes.index(mode)]
    return _Found(mode, {name: refused[name].why for name in before}, sent)


async def _send(endpoint: Endpoint, settings: BackboneSettings, mode: str) -> Sent:
    """Send the request in a mode, and again if the endpoint is busy."""
    limits = {
        name: REPLY_TOKENS for name in ("max_tokens", "max_completion_tokens") if getattr(settings, name)
    }
    body = endpoint.format.body(PROBE, settings.model_copy(update={"response_mode": mode} | limits))
    for tried in range(1, TRIES + 1):
        sent = await endpoint.ask(body)
        if sent.refusal is None or not sent.refusal.transient or tried == TRIES:
            break
        pause = sent.refusal.retry_after_s
        await asyncio.sleep(FIRST_PAUSE_S * tried if pause is None else min(pause, settings.max_wait_s))
    return sent


def _error(settings: BackboneSettings, sent: Sent) -> CrosscheckError:
    assert sent.refusal is not None
    url = public_url(settings.base_url or OPENAI_URL)
    message = f'Backbone "{settings.name}" ({settings.model} at {url}): {sent.why.rstrip(".")}. {sent.refusal.advice}'
    if sent.refusal.transient:
        return BackboneError(f"{message} {KEPT}", transient=True, fatal=True)
    return ConfigurationError(message)
