"""A Prefect server of our own for as long as an evaluation runs, where the user has none.

Prefect's ephemeral mode does the same, but prints its server's log on the terminal, starts it only when the flow
does, and stops it before all task runs are recorded. This one logs into a file, starts while the benchmark is
still being read, stops on `stop`, and ends by itself when its parent is gone.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import IO

from flows.orchestration.settings import SERVER, apply, local_settings
from flows.runtime.running_servers import find_running_servers
from tasks.errors import ConfigurationError, CrosscheckError
from tasks.settings.home import Home

START_TIMEOUT_S = 120.0


class LocalServer:
    """Prefect server that starts at once, in the background; `wait` returns when it answers.

    Does nothing where PREFECT_API_URL is set. Where `crosscheck up` runs for the working folder, its server is used:
    two servers on one SQLite file get in each other's way.
    """

    def __init__(self, home: Home) -> None:
        self.log = home.prefect / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_file: IO[bytes] | None = None
        home.prefect.mkdir(parents=True, exist_ok=True)
        apply(local_settings(home))
        if found := find_running_servers(home):
            apply({"PREFECT_API_URL": found.addresses.prefect_api})
        self.url = os.environ.get("PREFECT_API_URL", "")
        self.external = bool(self.url)
        if not self.external:
            self._start()

    def _start(self) -> None:
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}/api"
        self._log_file = self.log.open("wb")
        self._process = subprocess.Popen(  # noqa: S603 - our own module, our own port
            [sys.executable, "-m", "flows.orchestration.server", str(port)],
            stdin=subprocess.PIPE,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
            # A session of its own: Ctrl-C is for the evaluation, which still needs the server to record its end.
            start_new_session=True,
            env={**os.environ, **SERVER, "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT_UI_ENABLED": "0"},
        )

    def wait(self) -> str:
        """Return the API's URL once the server answers, and set PREFECT_API_URL to it for this process.

        Raises:
            CrosscheckError: when it ends or does not answer in time; names its log.
            ConfigurationError: the user's own server cannot be used.
        """
        if self.external:
            _check_external(self.url)
        else:
            self._wait_until_healthy()
            os.environ["PREFECT_API_URL"] = self.url
            apply({})
        return self.url

    def _wait_until_healthy(self) -> None:
        import httpx

        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/health", timeout=5).status_code == httpx.codes.OK:
                    return
            except httpx.HTTPError:
                time.sleep(0.1)
        raise CrosscheckError(
            f"Prefect's server did not start; its log is {self.log}.\n"
            "Start one yourself with `prefect server start` and set PREFECT_API_URL to its address, or move the "
            "working folder (--home) if the disk is full or another version of Prefect made its database."
        )

    def stop(self) -> None:
        """Stop the server and forget its URL; what it recorded stays in the working folder."""
        if self._process is None:
            return
        _send_waiting_logs()
        if os.environ.get("PREFECT_API_URL") == self.url:
            del os.environ["PREFECT_API_URL"]
            apply({})
        assert self._process.stdin is not None and self._log_file is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log_file.close()
        self._process = None

    def __enter__(self) -> "LocalServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _check_external(url: str) -> None:
    """Make sure that the user's own server answers, before anything is asked of a model."""
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            client.raise_for_api_version_mismatch()
            problem = client.api_healthcheck()
    except Exception as error:  # whatever Prefect and the network throw
        problem = error
    if problem is not None:
        raise ConfigurationError(
            f"Prefect's server at {_without_secrets(url)} (PREFECT_API_URL) cannot be used: "
            f"{_without_secrets(str(problem)) or type(problem).__name__}. Correct PREFECT_API_URL (it usually ends in "
            "/api), or unset it to record into the working folder."
        ) from problem


def _without_secrets(text: str) -> str:
    return re.sub(r"(?<=://)[^\s/@]+@", "***@", text.strip().rstrip("."))


def _send_waiting_logs() -> None:
    """Have Prefect send the log lines it has collected, which it would do after the server is gone otherwise."""
    if "prefect.logging.handlers" in sys.modules:
        from prefect.logging.handlers import APILogHandler

        asyncio.run(APILogHandler.aflush())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _serve(port: int) -> None:
    """Serve Prefect's API until standard input closes, which it does when the parent stops or dies."""
    import uvicorn

    server = uvicorn.Server(
        uvicorn.Config(
            "prefect.server.api.server:create_app",
            factory=True,
            host="127.0.0.1",
            port=port,
            log_level="error",
        )
    )

    def watch() -> None:
        sys.stdin.buffer.read()
        server.should_exit = True
        time.sleep(10)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    server.run()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
