"""A schedule that fires within seconds, on a real Prefect server, and the flow run that comes of it."""

import json
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.command_line import wait_until

OFTEN = {"PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}
"""Environment of a server that looks at its schedules often enough for a test."""
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def ask(url: str, body: Any = None, **headers: str) -> Any:
    """Return the JSON that a server answers: to a POST where there is a body, else to a GET."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


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
            found.update(run)
        return found.get("state_type") in ENDED

    wait_until(ended, timeout=120)
    assert found["auto_scheduled"]
    return found
