"""Proxy that passes requests on to a real server and records its answers as they are.

    python -m tests.servers.recording http://127.0.0.1:8101 recorded.jsonl --port 8201

Each line has the request (method, path, body) and the answer (status, headers, body). A streamed body is one text.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path

import aiohttp
from aiohttp import web

NOT_PASSED_ON = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
NOT_RECORDED = {
    "date",
    "content-encoding",
    "content-length",
    "transfer-encoding",
    "connection",
    "authorization",
}


def app_of(upstream: str, file: Path) -> web.Application:
    """Return the proxy's application."""

    async def pass_on(request: web.Request) -> web.Response:
        sent = await request.read()
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON
        }
        began = time.monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(None)) as session:
            try:
                async with session.request(
                    request.method, f"{upstream}{request.path_qs}", data=sent, headers=headers
                ) as answer:
                    body = await answer.read()
            except aiohttp.ClientError:
                assert request.transport is not None
                request.transport.abort()  # as the server did
                raise
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_RECORDED}
        record = {
            "method": request.method,
            "path": request.path_qs,
            "key": request.headers.get("authorization", ""),
            "request": json.loads(sent) if sent else None,
            "status": answer.status,
            "headers": kept,
            "body": body.decode("utf-8", "replace"),
            "seconds": round(time.monotonic() - began, 3),
        }
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        return web.Response(status=answer.status, headers=kept, body=body)

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{tail:.*}", pass_on)
    return app


def main() -> None:
    """Run the proxy until Ctrl-C."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("upstream")
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=8201)
    given = parser.parse_args()
    asyncio.set_event_loop(asyncio.new_event_loop())
    web.run_app(app_of(given.upstream.rstrip("/"), given.file), host="127.0.0.1", port=given.port, print=None)


if __name__ == "__main__":
    main()
