"""Process supervisor: starts services in order, restarts those that end, and fails when one keeps ending.

Own code, because honcho neither restarts nor orders processes, supervisord and circus start the next service without
waiting until the one it depends on is healthy, and all three leave processes running when they are killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from flows.servers.services import Service
from tasks.core.errors import CrosscheckError

EARLY_EXIT_S = 20.0
"""A service that ends sooner after its start has exited early."""
MAX_EARLY_EXITS = 5
"""A service with this many early exits in a row has failed."""
MAX_RESTART_DELAY_S = 30.0
MAX_LOG_BYTES = 20_000_000
STOP_TIMEOUT_S = 30.0
_LOG_LINES_SHOWN = 15
_WRAPPER = (sys.executable, "-P", "-m", "flows.servers.process_tree")


class ServiceFailedError(CrosscheckError):
    """A service ended too often right after its start."""

    exit_code = 1


@dataclass
class _ServiceState:
    """A service and its process."""

    service: Service
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    start_at: float = 0.0
    early_exits: int = 0
    healthy: bool = False

    def send_signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor(AbstractContextManager["Supervisor"]):
    """Context manager that runs services and stops them at its end.

    Args:
        services: in the order in which they start; stopped in the reverse order.
        report: receives one sentence per event.
        restart_delay_s: seconds before the first restart; doubled with every early exit.
    """

    def __init__(
        self, services: Sequence[Service], report: Callable[[str], None], restart_delay_s: float = 1.0
    ) -> None:
        self._states = {service.name: _ServiceState(service) for service in services}
        self._report = report
        self._restart_delay_s = restart_delay_s

    @property
    def all_healthy(self) -> bool:
        """Whether every service has been healthy since its last start."""
        return all(state.healthy for state in self._states.values())

    def update(self) -> None:
        """Start the services that are due, check the health of started ones, and schedule restarts of ended ones.

        Raises:
            ServiceFailedError: a service has too many early exits; names its log and shows the last lines.
        """
        for state in self._states.values():
            if state.process is None:
                after = state.service.after
                if time.monotonic() >= state.start_at and (not after or self._states[after].healthy):
                    _start(state)
            elif (code := state.process.poll()) is not None:
                self._handle_exit(state, state.process, code)
            elif not state.healthy:
                state.healthy = state.service.is_healthy()
                if state.healthy and not state.early_exits:
                    self._report(
                        f"{state.service.name} is ready after {time.monotonic() - state.started:.0f} s."
                    )

    def stop(self) -> None:
        """Stop the services in reverse order, one after the other; kill those that exceed the timeout."""
        try:
            for state in reversed(self._states.values()):
                if state.process is not None:
                    # SIGINT before standard input closes: the shutdown delay is only for a killed parent.
                    state.send_signal(signal.SIGINT)
                    _close(state.process)
                    with suppress(subprocess.TimeoutExpired):
                        state.process.wait(timeout=STOP_TIMEOUT_S)
        finally:
            self.kill()
            for state in self._states.values():
                if state.process is not None:
                    state.process.wait()
                    state.process = None

    def kill(self) -> None:
        """Request the end of all services without a grace period; does not wait for it."""
        for state in self._states.values():
            state.send_signal(signal.SIGTERM)

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _handle_exit(self, state: _ServiceState, process: "subprocess.Popen[bytes]", code: int) -> None:
        service = state.service
        _close(process)
        # If the wrapper itself was killed, its command is still in its process group and holds the port.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        state.process = None
        uptime = time.monotonic() - state.started
        state.early_exits = state.early_exits + 1 if uptime < EARLY_EXIT_S else 1
        number = -code if code < 0 else code - 128
        how = f"was killed by signal {number}" if number > 0 else f"ended with status {code}"
        if state.early_exits >= MAX_EARLY_EXITS:
            raise ServiceFailedError(
                f"{service.name} ended {state.early_exits} times within {EARLY_EXIT_S:g} s of its start and is not "
                f"started again. Its log, {service.log}, ends with:\n{_end_of_log(service)}"
            )
        delay = min(self._restart_delay_s * 2 ** (state.early_exits - 1), MAX_RESTART_DELAY_S)
        state.start_at = time.monotonic() + delay
        self._report(
            f"{service.name} {how} after {uptime:.0f} s; it starts again in {delay:g} s. Its log: {service.log}"
        )


def _start(state: _ServiceState) -> None:
    service = state.service
    _rotate_log(service)
    with service.log.open("ab") as log:
        state.process = subprocess.Popen(  # noqa: S603 - this project's module around this project's command
            [*_WRAPPER, str(service.shutdown_delay_s), *service.command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A session of its own: Ctrl-C reaches this process only, which stops the services in order.
            start_new_session=True,
            env=dict(service.environment),
        )
    state.started, state.healthy = time.monotonic(), False


def _close(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        process.stdin.close()


def _rotate_log(service: Service) -> None:
    """Rename a log that is too large, replacing the one that was renamed before."""
    service.log.parent.mkdir(parents=True, exist_ok=True)
    if service.log.exists() and service.log.stat().st_size > MAX_LOG_BYTES:
        service.log.replace(service.log.with_suffix(".log.1"))


def _end_of_log(service: Service) -> str:
    try:
        lines = service.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return f"  (it cannot be read: {error.strerror})"
    return "\n".join(f"  {line}" for line in lines[-_LOG_LINES_SHOWN:])
