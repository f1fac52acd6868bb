"""Stores replies from functions that are not asynchronous."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tasks.backbone.cache.store import ReplyCache
from tasks.backbone.protocol import Reply, Request


def store_reply(
    cache: ReplyCache, reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str = ""
) -> None:
    """Store a reply, also where an event loop is running."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, cache.put(reply, request, identity, backbone)).result()
