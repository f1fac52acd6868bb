"""Address of an endpoint, and the key and further headers that are read from the environment."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from tasks.backbone.endpoint.failures import scrub
from tasks.backbone.endpoint.formats.identity import OPENAI_URL
from tasks.backbone.endpoint.key_command import KeyCommand
from tasks.core.errors import ConfigurationError
from tasks.settings.backbone import BackboneSettings

BEARER = "Bearer "

_SECRET_PARAMETER = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|^(?:sig|signature|sas|code)$", re.I
)
_OURS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
"""Headers that the client sets itself."""


@dataclass(frozen=True)
class Access:
    """What is needed to send a request to an endpoint."""

    # the base URL; the paths of requests are below its path, its query belongs to all of them
    base: SplitResult
    headers: Mapping[str, str]  # headers of every request, with the values of the environment
    secrets: tuple[str, ...]  # these values, which no message may hold
    command: KeyCommand | None = None  # the program that prints the key

    @classmethod
    def of(cls, settings: BackboneSettings) -> Self:
        """Read the address from the settings, and the key and headers from the environment.

        Raises:
            ConfigurationError: base_url is not a valid address or holds a secret; two settings give the key; a variable
                is not set, is empty, or holds a character that no header may have.
        """
        base = _checked_url(settings)
        if settings.api_key_env is not None and settings.api_key_command is not None:
            raise ConfigurationError(
                f'Backbone "{settings.name}": api_key_env and api_key_command both give the key: set one of them.'
            )
        headers = {name.lower(): _variable(settings, each) for name, each in settings.headers_env.items()}
        if settings.api_key_env is not None:
            headers["authorization"] = f"{BEARER}{_variable(settings, settings.api_key_env)}"
        variables = (settings.api_key_env, *settings.headers_env.values())
        secrets = (_variable(settings, name) for name in variables if name is not None)
        if ours := sorted(_OURS & headers.keys()):
            raise ConfigurationError(
                f'Backbone "{settings.name}": headers_env must not set {ours[0]}, which the client sets itself.'
            )
        command = KeyCommand(settings.api_key_command, settings.name) if settings.api_key_command else None
        return cls(base, headers, tuple(secrets), command)

    async def key(self) -> str:
        """Return the key as it is now; "" if the endpoint needs none.

        Raises:
            BackboneError: the program that prints it fails.
        """
        if self.command is not None:
            return await self.command.key()
        return self.headers.get("authorization", "").removeprefix(BEARER)

    def url(self, path: str) -> str:
        """Return the URL of a path below the base URL; a query of the path is added to that of the base."""
        below, _, query = path.partition("?")
        query = "&".join(filter(None, (self.base.query, query)))
        return urlunsplit(self.base._replace(path=f"{self.base.path.rstrip('/')}/{below}", query=query))

    def clean(self, text: str) -> str:
        """Return a text without the secrets, and without anything that looks like one."""
        return scrub(text, (*self.secrets, *(self.command.printed if self.command else ())))


def _checked_url(settings: BackboneSettings) -> SplitResult:
    url = settings.base_url or OPENAI_URL
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # e.g. a port above 65535
        valid = False
    if not valid or not url.isprintable() or " " in url:
        raise ConfigurationError(
            f'Backbone "{settings.name}": base_url is not a valid address. Write http:// or https://, a host, '
            "optionally a port up to 65535, and a path, for example http://127.0.0.1:8000/v1."
        )
    secret = any(
        _SECRET_PARAMETER.search(name) or scrub(value) != value for name, value in parse_qsl(parts.query)
    )
    if "@" in parts.netloc or parts.fragment or secret:
        raise ConfigurationError(
            f'Backbone "{settings.name}": base_url must hold no user, password, key or fragment. Put the key into an '
            "environment variable, and its name into api_key_env, or into headers_env for another header."
        )
    return parts


def _variable(settings: BackboneSettings, name: str) -> str:
    value = os.environ.get(name, "").strip()
    what = "an API key" if name == settings.api_key_env else "a header"
    if not value:
        raise ConfigurationError(
            f'Backbone "{settings.name}" needs {what} in the environment variable {name}, which is not '
            f"set. Set it (export {name}=...), or choose a backbone that needs none: --backbone offline."
        )
    if not (value.isascii() and value.isprintable()):
        raise ConfigurationError(
            f'Backbone "{settings.name}" needs {what} in the environment variable {name}, and its value has a '
            f"character that is not allowed in {what}, such as a curly quotation mark or "
            "a line break. Set it again, without quotes."
        )
    return value
