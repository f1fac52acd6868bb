"""A key that a program prints: an access token, which expires during a long run."""

import asyncio
import shlex
import subprocess
from collections.abc import Sequence

from tasks.core.errors import BackboneError, ConfigurationError

KEPT_S = 180.0
"""Seconds after which the program is run again. The clients of Azure and Google Cloud print no token that expires
earlier (5 minutes, and 3 minutes 45 seconds)."""
LONGEST_S = 60.0


class KeyCommand:
    """The last key that a program printed to standard output.

    Attributes:
        printed: every key so far; no message may hold one.
    """

    def __init__(self, command: Sequence[str], name: str) -> None:
        """Prepare the program of a backbone; `name` is the backbone's."""
        self._command = tuple(command)
        self._name = name
        self._until = float("-inf")
        self._running = asyncio.Lock()
        self.printed: list[str] = []

    async def key(self) -> str:
        """Return the key; run the program if the last one is older than `KEPT_S`.

        Raises:
            BackboneError: it fails, is too slow, or prints no key; fatal, since it would for every other request.
        """
        async with self._running:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._until:
                try:
                    key = await asyncio.to_thread(self.run)
                except ConfigurationError as error:
                    raise BackboneError(str(error), transient=True, fatal=True, retried=True) from error
                if key not in self.printed:
                    self.printed.append(key)
                self._until = loop.time() + KEPT_S
            return self.printed[-1]

    def run(self) -> str:
        """Run the program and return the key that it prints.

        Raises:
            ConfigurationError: as for `key`.
        """
        try:
            done = subprocess.run(  # noqa: S603 - the user's own program, from the user's settings
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
            why = "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
            key = done.stdout.strip()
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            key, why = "", f"{type(error).__name__}: {error}"
        if not why and not (key and key.isascii() and key.isprintable() and " " not in key):
            why = "it printed no key on one line"
        if why:
            raise ConfigurationError(
                f'Backbone "{self._name}": the program of api_key_command, {shlex.join(self._command)}, gave no key '
                f"({' '.join(why.split())}). Run it in a terminal: it must print the key and nothing else."
            )
        return key
