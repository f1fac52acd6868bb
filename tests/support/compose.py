"""Runs services of a compose file as plain processes: its own commands, environment, order and health checks.

Replaces a container engine: names of services become 127.0.0.1, ports become free ones, places in the image
become folders of the test.
"""

import os
import re
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.command_line import stop, wait_until

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::(?P<how>[-?])(?P<text>[^}]*))?\})")
ENDED, ANSWERS = "service_completed_successfully", "service_healthy"


def read_compose(file: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return a compose file with its variables filled in, as `docker compose config` does."""

    def fill(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        if value := variables.get(found["name"]):
            return value
        assert found["how"] == "-", f"{file.name} demands {found['name']}: {found['text']}"
        return found["text"]

    def filled(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {key: filled(value) for key, value in part.items()}
        if isinstance(part, list):
            return [filled(each) for each in part]
        return _VARIABLE.sub(fill, part) if isinstance(part, str) else part

    return filled(yaml.safe_load(file.read_text(encoding="utf-8")))


@dataclass
class Composed:
    """The services of a compose file that have been started.

    Attributes:
        services: as `read_compose` returns them.
        instead: replacements of texts of the file on this machine.
        further: environment of every process besides that of the file.
        logs: folder of the services' output.
        cwd: replacement of the image's working folder.
    """

    services: Mapping[str, Any]
    instead: Mapping[str, str]
    further: Mapping[str, str]
    logs: Path
    cwd: Path
    _started: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))

    def here(self, text: str) -> str:
        """Return a text of the file as it is on this machine."""
        there = "|".join(re.escape(each) for each in sorted(self.instead, key=len, reverse=True))
        return re.sub(there, lambda found: self.instead[found[0]], text)

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a service's process."""
        environment = {
            key: self.here(value) for key, value in self.services[name].get("environment", {}).items()
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **environment, **self.further, "PATH": path}

    def up(self, name: str, until: str = ANSWERS) -> None:
        """Start a service after those that it depends on, each until the file's condition for it holds."""
        service = self.services[name]
        needed = [
            (other, demand["condition"])
            for other, demand in service.get("depends_on", {}).items()
            if other in self.services
        ]
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: self.up(*each), needed))
        with self._locks[name]:
            if name in self._started:
                return
            self._start(name)
            self._wait(name, until)

    def _start(self, name: str) -> None:
        service = self.services[name]
        with (self.logs / f"{name}.log").open("wb") as log:
            self._started[name] = subprocess.Popen(
                [self.here(word) for word in service["command"]],
                cwd=self.cwd, env=self.environment(name), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def healthy(self, name: str) -> bool:
        """Return whether the service's own health check succeeds."""
        first, *words = self.services[name]["healthcheck"]["test"]
        assert first == "CMD"
        checked = subprocess.run(
            [self.here(word) for word in words], env=self.environment(name), capture_output=True
        )
        return checked.returncode == 0

    def log(self, name: str) -> str:
        """Return what a service has printed."""
        return (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def down(self) -> None:
        """Stop everything, what was started last first."""
        for process in reversed(self._started.values()):
            stop(process)

    def _wait(self, name: str, condition: str) -> None:
        process = self._started[name]
        if condition == ENDED:
            assert process.wait(timeout=300) == 0, self.log(name)
            return
        assert condition == ANSWERS

        def healthy() -> bool:
            assert process.poll() is None, self.log(name)
            time.sleep(0.5)  # a check is a process, which takes time from the service
            return self.healthy(name)

        wait_until(healthy)
