"""Keeps services running: starts them in order, restarts what ends, gives up on what cannot stay."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from flows.servers.service import Service
from tasks.errors import CrosscheckError

QUICK_S = 20.0
"""A service that ends before it has run for so long has crashed at once."""
QUICK_CRASHES = 5
"""After so many of these in a row it is given up."""
LONGEST_PAUSE_S = 30.0
LARGEST_LOG = 20_000_000
STOP_S = 30.0
_SHOWN = 15


class GivenUpError(CrosscheckError):
    """A service cannot be kept running."""

    exit_code = 1


@dataclass
class _Kept:
    """A service and what has become of it so far."""

    service: Service
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    start_at: float = 0.0
    crashes: int = 0
    answered: bool = False


class Supervisor:
    """Runs services until told to stop.

    Args:
        services: in the order in which they start; stopped in the reverse order.
        tell: hears what happens, in one sentence each.
        first_pause_s: seconds before the first restart; doubled with every quick crash.
    """

    def __init__(
        self, services: Sequence[Service], tell: Callable[[str], None], first_pause_s: float = 1.0
    ) -> None:
        self._kept = {service.name: _Kept(service) for service in services}
        self._tell = tell
        self._first_pause_s = first_pause_s

    @property
    def up(self) -> bool:
        """Whether every service has answered since it was last started."""
        return all(kept.answered for kept in self._kept.values())

    def tend(self) -> None:
        """Do what is to be done now: start, notice, restart.

        Raises:
            GivenUpError: a service ended too often right after its start; names its log and shows its end.
        """
        for kept in self._kept.values():
            if kept.process is None:
                if time.monotonic() >= kept.start_at and self._may_start(kept.service):
                    self._start(kept)
            elif (code := kept.process.poll()) is not None:
                self._ended(kept, code)
            elif not kept.answered and kept.service.answers():
                kept.answered = True

    def stop(self) -> None:
        """Stop all, the last one first, each with time to report its end to those before it."""
        for kept in reversed(self._kept.values()):
            if kept.process is not None and kept.process.stdin is not None:
                # SIGINT is "stop now", without the lingering that a lost parent calls for.
                with suppress(ProcessLookupError):
                    kept.process.send_signal(signal.SIGINT)
                kept.process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    kept.process.wait(timeout=STOP_S)
        self.kill()

    def hurry(self) -> None:
        """Tell whatever still runs to end at once, without waiting for it."""
        for kept in self._kept.values():
            if kept.process is not None:
                with suppress(ProcessLookupError):
                    os.kill(kept.process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End at once whatever still runs."""
        self.hurry()
        for kept in self._kept.values():
            if kept.process is not None:
                kept.process.wait()
                kept.process = None

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self.kill()

    def _may_start(self, service: Service) -> bool:
        return not service.after or self._kept[service.after].answered

    def _start(self, kept: _Kept) -> None:
        service = kept.service
        _make_room(service)
        with service.log.open("ab") as log:
            kept.process = subprocess.Popen(  # noqa: S603 - our own module around our own command
                [sys.executable, "-m", "flows.servers.guard", str(service.linger_s), *service.command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C is for us, who stop the services in order.
                start_new_session=True,
                env=dict(service.environment),
            )
        kept.started, kept.answered = time.monotonic(), False

    def _ended(self, kept: _Kept, code: int) -> None:
        service, process = kept.service, kept.process
        assert process is not None and process.stdin is not None
        process.stdin.close()
        # Where the guard itself was killed, what it guarded is still in its group, and holds the port.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        kept.process = None
        lived = time.monotonic() - kept.started
        kept.crashes = kept.crashes + 1 if lived < QUICK_S else 1
        number = -code if code < 0 else code - 128
        how = f"was killed by signal {number}" if number > 0 else f"ended with status {code}"
        if kept.crashes >= QUICK_CRASHES:
            raise GivenUpError(
                f"{service.name} ended {kept.crashes} times within {QUICK_S:g} s of its start and is given up. "
                f"Its log, {service.log}, ends with:\n{_end_of(service)}"
            )
        pause = min(self._first_pause_s * 2 ** (kept.crashes - 1), LONGEST_PAUSE_S)
        kept.start_at = time.monotonic() + pause
        self._tell(
            f"{service.name} {how} after {lived:.0f} s; it starts again in {pause:g} s. Its log: {service.log}"
        )


def _make_room(service: Service) -> None:
    """Put a log aside that has grown large, in place of the one put aside before."""
    service.log.parent.mkdir(parents=True, exist_ok=True)
    if service.log.exists() and service.log.stat().st_size > LARGEST_LOG:
        shutil.move(service.log, service.log.with_suffix(".log.1"))


def _end_of(service: Service) -> str:
    try:
        lines = service.log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return f"  (it cannot be read: {error.strerror})"
    return "\n".join(f"  {line}" for line in lines[-_SHOWN:])
