"""A schedule that fires within seconds, on a real Prefect server, and the flow run that comes of it."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import httpx

from tests.support.command_line import wait_until

OFTEN = {"PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}
"""Environment of a server that looks at its schedules often enough for a test."""
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def ask(url: str, body: Any = None, **headers: str) -> Any:
    """Return the JSON that a Prefect server answers: to a POST where there is a body, else to a GET."""
    return send("GET" if body is None else "POST", url, body, **headers).json()


def send(method: str, url: str, body: Any = None, **headers: str) -> httpx.Response:
    """Return what a Prefect server answers.

    While its SQLite database is locked it answers 503; as Prefect's own client does, ask again.
    """
    deadline = time.monotonic() + 120
    while True:
        response = _client().request(method, url, json=body, headers=headers)
        if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
            return response.raise_for_status()
        time.sleep(0.5)


@cache
def _client() -> httpx.Client:
    """Return a client that loads no certificates, which takes longer than the request, and keeps no connection."""
    return httpx.Client(timeout=120, verify=False, limits=httpx.Limits(max_keepalive_connections=0))


def fired(api: str, deployment: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Give a deployment one more schedule, due in seconds; return the flow run that Prefect made of it, ended."""
    id_ = ask(f"{api}/deployments/name/{deployment}")["id"]
    soon = datetime.now(UTC) + timedelta(seconds=8)
    schedule = {"interval": 86_400, "anchor_date": soon.isoformat()}
    ask(f"{api}/deployments/{id_}/schedules", [{"schedule": schedule, "parameters": parameters}])
    begun = {"deployment_id": {"any_": [id_]}, "state": {"type": {"any_": ["RUNNING", *ENDED]}}}
    found: dict[str, Any] = {}

    def ended() -> bool:
        for run in ask(f"{api}/flow_runs/filter", {"flow_runs": begun}):
            found.update(run if run["auto_scheduled"] else {})  # other tests make runs of their own
        return found.get("state_type") in ENDED

    wait_until(ended, pause=0.5)
    return found
