"""What determines a reply besides the request: model, endpoint and sampling, the endpoint's part of each cache key."""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tasks.settings.backbone import AUTO, BackboneSettings

OPENAI_URL = "https://api.openai.com/v1"

SENT_ONLY = frozenset(
    {
        "cache_control",
        "metadata",
        "priority",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "provider",
        "request_id",
        "route",
        "safety_identifier",
        "service_tier",
        "store",
        "tags",
        "usage",
        "user",
    }
)
"""Fields of the body that change the price, routing or accounting of a call, but not its reply. They are sent, but are
not part of the identity of a request: replies are reused when they change."""


def public_url(url: str) -> str:
    """Return the URL without user, password, query and trailing slash.

    >>> public_url("https://me:secret@host:8000/v1/?key=secret")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def identity_of(settings: BackboneSettings) -> dict[str, Any]:
    """Return the settings that determine a reply: model, endpoint and sampling, without those in `SENT_ONLY`.

    The name is left out: two names for the same model share their cached replies. An epoch, a reasoning effort and a
    missing system role are in it where there is one, so that keys without one are what they always were. The reply
    format is left out: it is in the request's messages and schema.
    """
    optional = {
        "epoch": settings.epoch,
        "reasoning_effort": settings.reasoning_effort,
        "system_role": None if settings.system_role else False,
    }
    return {name: value for name, value in optional.items() if value is not None} | {
        "kind": settings.kind,
        "model": settings.model,
        "base_url": address_of(settings),
        "temperature": settings.temperature,
        "max_tokens": settings.reply_tokens,
        "seed": settings.seed,
        "response_mode": response_mode_of(settings),
        "extra_body": {name: value for name, value in settings.extra_body.items() if name not in SENT_ONLY},
    }


def address_of(settings: BackboneSettings) -> str:
    """Return the endpoint's URL; its query is part of it, which may name a deployment or a version, and no secret."""
    query = urlsplit(settings.base_url or "").query
    return public_url(settings.base_url or OPENAI_URL) + (f"?{query}" if query else "")


def response_mode_of(settings: BackboneSettings) -> str:
    """Return the response mode; for "auto", which `find_response_mode` replaces, the mode that most endpoints take."""
    return "json_object" if settings.response_mode == AUTO else settings.response_mode
