"""Settings as MLflow parameters: flat, short enough, without secrets."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tasks.core.wording import HIDDEN, hide, storable

if TYPE_CHECKING:
    from tasks.results.run_record import Kind

MAX_VALUE = 6000
"""MLflow's limit on the length of a parameter's value; longer ones make the whole batch fail or get cut."""

_SECRET_NAME = re.compile(
    r"(api[-_]?key|secret|password|passwd|token|authorization|credential)s?$", re.IGNORECASE
)
_REFUSED = re.compile(r"[^\w\-. :/]")
_USER_INFO = re.compile(r"(?<![\w+.-])([\w+.-]*+)://([^/@\s]++)(?=@)")


def secrets_of(backbone: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a backbone's settings take from the environment: its key and the values of its headers."""
    names = (backbone.get("api_key_env"), *(backbone.get("headers_env") or {}).values())
    return tuple(value for name in names if name and (value := os.environ.get(name, "").strip()))


def redact(value: Any, *secrets: str) -> Any:
    """Return plain JSON with everything hidden that is, or by its name must be, a secret.

    Values known to be secret are hidden wherever they stand.

    >>> redact({"base_url": "https://me:pw@host/v1", "headers": {"Authorization": "Bearer x"}})
    {'base_url': 'https://***@host/v1', 'headers': {'Authorization': '***'}}
    >>> redact(["postgresql://reader@host/shop", "postgresql://reader:pw@host/shop"])
    ['postgresql://reader@host/shop', 'postgresql://***@host/shop']
    """
    if isinstance(value, Mapping):
        redacted = {}
        for key, item in value.items():
            hidden = isinstance(item, str) and item and _SECRET_NAME.search(str(key))
            # "headers_env" holds names of environment variables, not their secret values
            plain = item if key == "headers_env" else redact(item, *secrets)
            redacted[key] = HIDDEN if hidden else plain
        return redacted
    if isinstance(value, list | tuple):
        return [redact(item, *secrets) for item in value]
    if isinstance(value, str):
        return _USER_INFO.sub(_without_secret, hide(value, secrets))
    return value


def _without_secret(address: re.Match[str]) -> str:
    """Return an address without what may be secret: a role of a database is needed to read the database again."""
    scheme, user = address.groups()
    is_role = ":" not in user and scheme and not scheme.lower().startswith("http")
    return address[0] if is_role else f"{scheme}://{HIDDEN}"


def flatten(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as parameters named and written like the command line's `--set`.

    Lists are JSON; a value longer than MLflow takes is cut and ends with its length and sha256.

    >>> flatten({"pipeline": {"selection": {"enabled": True, "rows_shown": 5}, "k": None}})
    {'pipeline.selection.enabled': 'true', 'pipeline.selection.rows_shown': '5', 'pipeline.k': 'null'}
    """
    return {name_for_mlflow(name): _shorten(storable(text)) for name, text in _walk(settings, "")}


def automatic_settings(requested: Mapping[str, Any]) -> set[str]:
    """Return the keys of flat settings whose value is "auto"; a run stores the value that replaced it.

    The response mode that a run chooses also decides the role of the system message.
    """
    from tasks.settings.backbone import AUTO

    keys = {key for key, value in requested.items() if value == AUTO}
    if "backbone.response_mode" in keys:
        keys.add("backbone.system_role")
    return keys


def name_for_mlflow(name: str) -> str:
    """Return a name as MLflow accepts it for a parameter or metric: other characters become underscores.

    >>> name_for_mlflow("ex_by_difficulty/très (dur)")
    'ex_by_difficulty/très _dur_'
    """
    return _REFUSED.sub("_", storable(name))[:250]


def _walk(settings: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _walk(value, f"{name}.")
        else:
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shorten(text: str) -> str:
    if len(text) <= MAX_VALUE:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    tail = f"... ({len(text)} characters, sha256 {digest})"
    return text[: MAX_VALUE - len(tail)] + tail


def stored_settings(settings: "Mapping[Kind, Mapping[str, Any]]") -> dict[str, Any]:
    """Return the settings of benchmark, backbone and pipeline as a run stores them: plain JSON, without secrets."""
    plain = json.loads(json.dumps(settings, default=str))
    stored: dict[str, Any] = redact(plain, *secrets_of(settings["backbone"]))
    return stored
