"""Address of an endpoint, and its key and further headers: from the environment, or printed by a program."""

import asyncio
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from tasks.backbone.endpoint.failures import scrub
from tasks.backbone.endpoint.wire import OPENAI_URL
from tasks.backbone.protocol import Reply
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.wording import hide
from tasks.settings.backbone import BackboneSettings

KEPT_S = 180.0
"""Seconds after which the program is run again. The clients of Azure and Google Cloud print no token that expires
earlier (5 minutes, and 3 minutes 45 seconds)."""
MAX_S = 60.0


class KeyCommand:
    """The key that a program prints; `secrets`, which no message may contain, gets each key that it has printed."""

    def __init__(self, command: Sequence[str], name: str, secrets: list[str]) -> None:
        self._command = tuple(command)
        self._name = name
        self._secrets = secrets
        self._key = ""
        self._valid_until = float("-inf")
        self._one_at_a_time = asyncio.Lock()

    async def key(self) -> str:
        """Return the key; run the program if the last one is older than `KEPT_S`."""
        async with self._one_at_a_time:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._valid_until:
                try:
                    self._key = await asyncio.to_thread(self.run)
                except ConfigurationError as error:
                    # fatal: it ends the run; transient: another run asks the questions again; retried: no stage does
                    raise BackboneError(str(error), transient=True, fatal=True, retried=True) from error
                if self._key not in self._secrets:
                    self._secrets.append(self._key)
                self._valid_until = loop.time() + KEPT_S
            return self._key

    def run(self) -> str:
        """Run the program and return the key that it prints."""
        key = problem = ""
        try:
            process = subprocess.run(  # noqa: S603 - the user's own program, from the user's settings
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=MAX_S,
                check=False,
            )
            key = process.stdout.strip()
            if process.returncode != 0:
                problem = f"exit code {process.returncode}: {process.stderr.strip()[-300:]}"
            elif not (key and key.isascii() and key.isprintable() and " " not in key):
                problem = "it printed no key on one line"
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            raise ConfigurationError(
                f'Backbone "{self._name}": the program of api_key_command, {shlex.join(self._command)}, gave no key '
                f"({' '.join(problem.split())}). Run it in a terminal: it must print the key and nothing else."
            )
        return key


BEARER = "Bearer "
_SECRET_PARAMETER = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|^(?:sig|signature|sas|code)$", re.I
)
_RESERVED = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
"""Headers that the client sets itself."""


@dataclass(frozen=True)
class Access:
    """What is needed to send a request to an endpoint."""

    # the base URL; the paths of requests are below its path, its query belongs to all of them
    base: SplitResult
    headers: Mapping[str, str]  # headers of every request, with the values of the environment
    secrets: list[str]  # these values and the keys that the program has printed, which no message may hold
    command: KeyCommand | None = None  # the program that prints the key

    @classmethod
    def of(cls, settings: BackboneSettings) -> Self:
        """Read the address from the settings, and the key and headers from the environment."""
        base = _checked_url(settings)
        if settings.api_key_env is not None and settings.api_key_command is not None:
            raise ConfigurationError(
                f'Backbone "{settings.name}": api_key_env and api_key_command both give the key: set one of them.'
            )
        headers = {
            name.lower(): _variable(settings, variable) for name, variable in settings.headers_env.items()
        }
        secrets = list(headers.values())
        if settings.api_key_env is not None:
            key = _variable(settings, settings.api_key_env)
            secrets.append(key)
            headers["authorization"] = f"{BEARER}{key}"
        if reserved := sorted(_RESERVED & headers.keys()):
            raise ConfigurationError(
                f'Backbone "{settings.name}": headers_env must not set {reserved[0]}, which the client sets itself.'
            )
        program = settings.api_key_command
        command = KeyCommand(program, settings.name, secrets) if program else None
        return cls(base, headers, secrets, command)

    async def all_headers(self) -> dict[str, str]:
        """Return the headers of a request, with the key as it is now."""
        key = {"authorization": f"{BEARER}{await self.command.key()}"} if self.command else {}
        return {**self.headers, **key}

    def url(self, path: str) -> str:
        """Return the URL of a path below the base URL; a query of the path is added to that of the base."""
        below, _, query = path.partition("?")
        query = "&".join(filter(None, (self.base.query, query)))
        return urlunsplit(self.base._replace(path=f"{self.base.path.rstrip('/')}/{below}", query=query))

    def clean(self, text: str) -> str:
        """Return a text without the secrets, and without anything that looks like one."""
        return scrub(self.hide(text))

    def hide(self, text: str) -> str:
        """Return a text without the secrets."""
        return hide(text, self.secrets)

    def without_secrets(self, reply: Reply) -> Reply:
        """Return a reply in whose names the server does not repeat a secret."""
        call = replace(reply.call, model=self.hide(reply.call.model), tier=self.hide(reply.call.tier))
        return replace(reply, call=call)


def _checked_url(settings: BackboneSettings) -> SplitResult:
    """Return the base URL in its parts; ConfigurationError if it is malformed or holds a secret."""
    url = settings.base_url or OPENAI_URL
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # e.g. a port above 65535
        is_valid = False
    if not is_valid or not url.isprintable() or " " in url:
        raise ConfigurationError(
            f'Backbone "{settings.name}": base_url is not a valid address. Write http:// or https://, a host, '
            "optionally a port up to 65535, and a path, for example http://127.0.0.1:8000/v1."
        )
    parameters = parse_qsl(parts.query)
    # a secret by the parameter's name, or by its value, which `scrub` then changes
    has_secret = any(_SECRET_PARAMETER.search(name) or scrub(value) != value for name, value in parameters)
    has_user = "@" in parts.netloc
    if has_user or parts.fragment or has_secret:
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
            f"set. Set it (export {name}=...), or choose a backbone that needs none, such as offline."
        )
    if not (value.isascii() and value.isprintable()):
        raise ConfigurationError(
            f'Backbone "{settings.name}" needs {what} in the environment variable {name}, and its value has a '
            f"character that is not allowed in {what}, such as a curly quotation mark or "
            "a line break. Set it again, without quotes."
        )
    return value
