"""Pages of other sites at Prefect's server, which runs shell commands for whoever may create a deployment.

What a browser sends for such a page is in the Fetch standard: `Origin` with each cross-origin POST and WebSocket, no
preflight for a body without a type, and, after DNS rebinding, the page's own name as `Host`.
"""

import asyncio
import http.client
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from prefect.server.api.clients import OrchestrationClient
from prefect.settings import PREFECT_SERVER_CORS_ALLOWED_ORIGINS, temporary_settings
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from flows.prefect.prefect_app import migrate, prefect_app
from tasks.settings.home import Home
from tests.support.prefect_home import Served

pytestmark = pytest.mark.slow

EVIL = "http://evil.example"


def status_of(url: str, headers: dict[str, str]) -> int:
    """Return the status of the answer to the first request of such an attack: create a flow."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    connection.request("POST", f"{address.path}/flows/", '{"name": "of another site"}', headers)
    return connection.getresponse().status


@pytest.mark.parametrize("headers", [
    {"Origin": EVIL, "Content-Type": "application/json"},
    {"Origin": EVIL},
    {"Origin": "null", "Content-Type": "application/json"},
    {"Origin": "http://127.0.0.1:1", "Content-Type": "application/json"},
    {"Origin": "{own}.evil.example", "Content-Type": "application/json"},
    {"Host": "evil.example", "Content-Type": "application/json"},
    {"Host": "127.0.0.1.evil.example:4200", "Content-Type": "application/json"},
    {"Host": "evil.example:4200", "Origin": f"{EVIL}:4200", "Content-Type": "application/json"},
])  # fmt: skip
def test_a_page_of_another_site_creates_nothing(headers: dict[str, str], prefect_api: Served) -> None:
    own = prefect_api.url.removesuffix("/api")
    assert status_of(prefect_api.url, {name: value.format(own=own) for name, value in headers.items()}) == 403


def test_programs_and_own_pages_are_answered(prefect_api: Served) -> None:
    own = prefect_api.url.removesuffix("/api")
    port = own.rpartition(":")[2]
    for headers in ({}, {"Origin": own}, {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}):
        assert status_of(prefect_api.url, {"Content-Type": "application/json", **headers}) in (200, 201)


async def test_the_servers_own_requests_are_answered(prefect_home: Home) -> None:
    """Those of its automations: they call a webhook, and mark a flow run as crashed."""
    await asyncio.to_thread(migrate, prefect_home.prefect / "prefect.db")
    with temporary_settings({PREFECT_SERVER_CORS_ALLOWED_ORIGINS: "http://127.0.0.1:4200"}):
        prefect_app()
        async with OrchestrationClient() as client:
            assert (await client.read_deployment_raw(uuid4())).status_code == 404


def test_a_page_of_another_site_opens_no_websocket(prefect_api: Served) -> None:
    async def open_one(origin: str | None) -> None:
        async with connect(prefect_api.url.replace("http", "ws", 1) + "/events/in", origin=origin):
            pass

    asyncio.run(open_one(None))
    with pytest.raises(InvalidStatus, match="403"):
        asyncio.run(open_one(EVIL))
