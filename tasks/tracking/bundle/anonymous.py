"""Removal of secrets, paths, and names of machines and users from the texts of a bundle."""

import os
import re
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from tasks.tracking.evaluation import user_name
from tasks.tracking.parameters import HIDDEN, redact

PUBLIC_HOSTS = ("api.openai.com", "api.deepseek.com", "localhost", "127.0.0.1", "[::1]")
"""Hosts that name no machine of a user."""

_FILE_URL = re.compile(r"([A-Za-z][\w+.-]{0,31}):///+[^\s\"'`<>]+")
_URL = re.compile(r"([A-Za-z][\w+.-]{0,31})://([^\s/?#\"'`<>]+)")
_PATH = re.compile(
    r"(?<![\w.*/@\\-])(?:[A-Za-z]:[\\/]|~?/(?!/)[^\s\"'`<>|,;()\[\]{}/]+/)[^\s\"'`<>|,;()\[\]{}]+"
)
_WHOLE_PATH = re.compile(r"(?:[A-Za-z]:[\\/]|~?/(?!/))[^\n]+")
_LEAST = 2
"""Shortest name of a machine or user that is looked for in texts."""
_IDENTITIES = (
    "benchmark",
    "backbone",
    "pipeline",
    "name",
    "kind",
    "layout",
    "rule",
    "model",
    "dialect",
    "engine",
)
"""Keys of values that must stay what they are, also where a machine has the name of a benchmark."""


@dataclass(frozen=True)
class Anonymizer:
    """Remover of what a bundle must not hold."""

    folders: tuple[str, ...]  # folders of this machine, longest first: what is below them becomes relative
    names: re.Pattern[str] | None  # names of the machine and of the user; None if there are none
    secrets: tuple[str, ...]  # texts that are secret

    @classmethod
    def of_this_machine(cls, folders: Sequence[Path], secrets: Sequence[str]) -> "Anonymizer":
        """Return the one for this machine.

        Args:
            folders: further folders whose places are not to be named.
            secrets: secrets that are known.
        """
        known = (*folders, Path.home(), Path.cwd(), Path(tempfile.gettempdir()))
        places = {os.path.abspath(each) for each in known}  # noqa: PTH100 - `resolve` would follow links
        host = socket.gethostname()
        named = {host, host.partition(".")[0], user_name() or ""}
        words = "|".join(re.escape(name) for name in sorted(named) if len(name) >= _LEAST)
        return cls(
            tuple(sorted((each for each in places if each.count("/") > 1), key=len, reverse=True)),
            re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE) if words else None,
            tuple(secrets),
        )

    def text(self, text: str) -> str:
        """Return a text with secrets, hosts and names as `***`, and paths without their folders."""
        text = self._without_places(text)
        return self.names.sub(HIDDEN, text) if self.names else text

    def _without_places(self, text: str) -> str:
        text = str(redact(text, *self.secrets))
        for folder in self.folders:
            text = text.replace(f"{folder}/", "").replace(folder, HIDDEN)
        text = _FILE_URL.sub(lambda found: f"{found[1]}:///{_last(found[0])}", text)
        text = _URL.sub(_without_host, text)
        return _PATH.sub(lambda found: _last(found[0]), text)

    def value(self, value: Any, key: str = "") -> Any:
        """Return plain JSON, found under a key, with every text in it like that; of a path, its last part."""
        if isinstance(value, Mapping):
            known = redact(value, *self.secrets).items()
            return {name: self.value(item, "tag" if key == "tags" else name) for name, item in known}
        if isinstance(value, list | tuple):
            return [self.value(item, key) for item in value]
        if isinstance(value, str):
            whole = _WHOLE_PATH.fullmatch(value) and not any(value.startswith(each) for each in self.folders)
            value = _last(value) if whole else value
            return self._without_places(value) if key in _IDENTITIES else self.text(value)
        return value


def _last(path: str) -> str:
    return PureWindowsPath(path).name or HIDDEN


def _without_host(found: re.Match[str]) -> str:
    host = found[2].rpartition("@")[2]
    name = host if host in PUBLIC_HOSTS else re.sub(r":\d+$", "", host)
    return found[0] if name.lower() in PUBLIC_HOSTS else f"{found[1]}://{HIDDEN}"
