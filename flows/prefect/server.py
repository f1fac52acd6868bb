"""Local Prefect server for the time of an evaluation, for users without a server.

Unlike Prefect's ephemeral server, it logs into a file, starts while the benchmark is still being read, and stops only
on request or when its parent process ends.
"""

import asyncio
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.request import urlopen

from flows.prefect.prefect_app import create_database, local_origins, migrate, prefect_app
from flows.prefect.settings import OWN_SERVER, apply, local_settings
from flows.runtime.control import Control, Interrupted
from flows.runtime.folder_use import FolderUse, find_running_servers
from flows.runtime.process import collect_garbage_seldom, importing
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.database.sqlite_files import renew_if_damaged
from tasks.settings.home import Home

if TYPE_CHECKING:
    from uvicorn import Server

log = logging.getLogger(__name__)

START_TIMEOUT_S = 120.0
MAX_RESTARTS = 5
FLUSH_S = 0.25


class LocalServer(AbstractContextManager["LocalServer"]):
    """Prefect server that starts in the background; `wait` returns when it is healthy.

    Starts nothing if PREFECT_API_URL is set. If `crosscheck up` runs for the working folder, its server is used,
    because two servers cannot share one SQLite file.
    """

    def __init__(self, home: Home, *, later: bool = False) -> None:
        """Start the server, or leave that to `wait` with `later`."""
        self.log = home.prefect / "server.log"
        self._database = home.prefect / "prefect.db"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_file: IO[bytes] | None = None
        self._was_healthy = self._given_up = False
        self._stopping = threading.Event()
        self._process_lock = threading.Lock()
        self._folder_use = FolderUse(home)
        home.prefect.mkdir(parents=True, exist_ok=True)
        apply(local_settings(home))
        if running := find_running_servers(home):
            apply({"PREFECT_API_URL": running.prefect_api})
        self.url = os.environ.get("PREFECT_API_URL", "")
        self.external = bool(self.url)
        if not (self.external or later):
            self._start()

    def _start(self) -> None:
        renew_if_damaged(
            self._database, "it lacks the task runs of earlier evaluations; scores and replies are elsewhere"
        )
        create_database(self._database)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/api"
        if self._log_file is not None:
            self._log_file.close()
        self._log_file = self.log.open("wb")
        self._given_up = False
        # A restart gets this copy too: `wait` adds this server's address to the process's own environment.
        environment = {**os.environ, **OWN_SERVER, **local_origins(port)}
        self._process = self._launch(port, environment)
        threading.Thread(target=self._restart, args=(port, environment), daemon=True).start()

    def _launch(self, port: int, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - a module of this project, a port that it chose
            [sys.executable, "-P", "-m", "flows.prefect.server", str(port), str(self._database)],
            stdin=subprocess.PIPE,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
            # A session of its own, so that Ctrl-C does not reach it: the evaluation still records its end there.
            start_new_session=True,
            env=environment,
        )

    def _restart(self, port: int, environment: Mapping[str, str]) -> None:
        """Restart the server if it was killed or stopped; otherwise each event of a task run would wait for it."""
        import psutil

        restarts = 0
        while not self._stopping.wait(1.0):
            with self._process_lock:
                process = self._process
                if process is None or not self._was_healthy:
                    continue
                with suppress(psutil.Error):
                    status = psutil.Process(process.pid).status() if process.poll() is None else ""
                    if status == psutil.STATUS_STOPPED:
                        process.kill()
                        process.wait()
                if process.poll() is None:
                    continue
                if restarts < MAX_RESTARTS:
                    restarts += 1
                    self._process = self._launch(port, environment)
                    continue
            from flows.prefect.flow_runs import give_up_server

            log.warning("Prefect's server ended %d times; its log is %s", restarts + 1, self.log)
            self._was_healthy = False  # nothing waits for it
            give_up_server()
            self._given_up = True  # the next evaluation starts another
            return

    def wait(self, control: Control | None = None) -> str:
        """Wait until the server is healthy or the user stops it, set PREFECT_API_URL here and return that URL."""
        from flows.prefect.flow_runs import use_server_again

        if self.external:
            _check_external(self.url)
        else:
            if self._process is None or self._given_up:
                self._start()
            self._wait_until_healthy(control)
            os.environ["PREFECT_API_URL"] = self.url
            apply({})
        use_server_again()
        return self.url

    def _wait_until_healthy(self, control: Control | None) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None and not self._was_healthy:
                break
            try:
                # Not with httpx, which spends a tenth of a second on certificates for each client.
                with urlopen(f"{self.url}/health", timeout=5) as response:  # noqa: S310 - the server of this process
                    if response.status == HTTPStatus.OK:
                        self._was_healthy = True
                        return
            except OSError:
                time.sleep(0.1)
            if control and control.stop.is_set():
                raise Interrupted(
                    "stopped before Prefect's server answered. Every reply that came is kept: run the same command "
                    "again to continue.",
                    control,
                )
        raise CrosscheckError(
            f"Prefect's server did not start, or was ended; its log is {self.log}. Every reply that came is kept.\n"
            "Start a server with `prefect server start` and set PREFECT_API_URL to its address, or name another "
            "working folder (--home) if the disk is full or the database was made by another version of Prefect."
        )

    def stop(self) -> None:
        """Stop the server and unset its URL; its database stays in the working folder."""
        if self._process is not None:
            if "prefect.logging.handlers" in sys.modules:  # log lines that Prefect has buffered
                from prefect.logging.handlers import APILogHandler

                asyncio.run(APILogHandler.aflush())
            self._stopping.set()
            with self._process_lock:  # not while `_restart` starts a process
                if os.environ.get("PREFECT_API_URL") == self.url:
                    del os.environ["PREFECT_API_URL"]
                    apply({})  # so that Prefect's settings no longer name it
                assert self._process.stdin is not None and self._log_file is not None
                self._process.stdin.close()  # the server ends when its standard input closes
                try:
                    self._process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                self._log_file.close()
                self._process = None
        self._folder_use.end()

    def __exit__(self, *error: object) -> None:
        self.stop()


def _check_external(url: str) -> None:
    """Check the server of PREFECT_API_URL before the first model call."""
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch()
            problem = client.api_healthcheck()
    except Exception as error:  # Prefect and the HTTP client raise many kinds
        problem = error
    if problem is not None:
        is_refused = getattr(getattr(problem, "response", None), "status_code", None) in (401, 403)
        remedy = "Correct PREFECT_API_URL (it usually ends in /api)"
        if is_refused:
            remedy = (
                "Set PREFECT_API_AUTH_STRING (user:password) or PREFECT_API_KEY to what the server accepts"
            )
        raise ConfigurationError(
            f"Prefect's server at {_without_secrets(url)} (PREFECT_API_URL) cannot be used: "
            f"{_without_secrets(str(problem)) or type(problem).__name__}. {remedy}, or unset "
            "PREFECT_API_URL to record into the working folder."
        ) from problem


def _without_secrets(text: str) -> str:
    return re.sub(r"(?<=://)[^\s/@]+@", "***@", text.strip().rstrip("."))


def _flush_sooner() -> None:
    """Have the recorder write task runs every `FLUSH_S` seconds: at its end, an evaluation waits for the last ones.

    Prefect's setting takes whole seconds, and with 0 the server would use a whole core.
    """
    from prefect.server.services import task_run_recorder

    recorder: Any = task_run_recorder
    consumer = recorder.consumer
    recorder.consumer = lambda **options: consumer(**{**options, "flush_every": FLUSH_S})


def _serve(port: int, database: Path) -> None:
    """Serve Prefect's API until standard input closes: the parent process closes it, or has ended."""
    server: Server | None = None

    def watch() -> None:
        os.read(0, 1)
        if server is None:  # not even imported
            os._exit(0)
        server.should_exit = True
        time.sleep(10)  # by then the server has ended by itself, or hangs
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    collect_garbage_seldom()
    with importing():
        import uvicorn

        _flush_sooner()
        app = prefect_app()
    migrate(database)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    server.run()
    # Everything is written. Taking the interpreter apart would take seconds, for which the evaluation waits.
    os._exit(0)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))
