"""Check that an endpoint answers, before the first request is sent."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from tasks.backbone.endpoint.connection import deadline

PROBE_S = 25.0
"""Seconds within which an endpoint has to answer GET /models, with any status."""


class SilentError(Exception):
    """Endpoint that accepts connections and does not answer."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Contact:
    """Whether an endpoint has answered, with any status; shared by all clients of this process."""

    made: bool = False


_CONTACTS: WeakValueDictionary[str, Contact] = WeakValueDictionary()
"""Contacts by host and port; each exists as long as a client of it."""


class Probe:
    """Sends GET /models, which costs nothing, to an endpoint before the first request.

    A server that works on one request at a time answers nothing else meanwhile, so the silence of an endpoint says
    something only while no request of this process can be in work there: before the first one. Once it has answered,
    with any HTTP status, every request is waited for until its timeout.
    """

    def __init__(self, host: str, ask: Callable[[], Awaitable[object]], timeout_s: float) -> None:
        """Prepare the probe.

        Args:
            host: host and port of the endpoint.
            ask: sends the request.
            timeout_s: timeout of a request; the probe's is no longer.
        """
        self._contact = _CONTACTS.setdefault(host, Contact())
        self._ask = ask
        self.timeout_s = min(PROBE_S, timeout_s)
        self._asking: asyncio.Task[Exception | None] | None = None

    async def failure(self) -> Exception | None:
        """Return why no request can be sent to the endpoint; None if it has answered.

        All callers wait for the same answer.
        """
        if self._contact.made:
            return None
        if self._asking is None:
            self._asking = asyncio.create_task(self._asked())
        return await asyncio.shield(self._asking)

    def answered(self) -> None:
        """Note that the endpoint has answered."""
        self._contact.made = True

    def close(self) -> None:
        """Stop the probe."""
        if self._asking is not None:
            self._asking.cancel()

    async def _asked(self) -> Exception | None:
        try:
            async with deadline(self.timeout_s):
                await self._ask()
        except TimeoutError as error:
            # What connects within no time is not there; the client of another model may have had an answer.
            connected = not _is_connection_timeout(error)
            return None if self._contact.made else SilentError() if connected else error
        except Exception as error:
            return error
        finally:
            self._asking = None
        self.answered()
        return None


def _is_connection_timeout(error: TimeoutError) -> bool:
    from aiohttp import ConnectionTimeoutError

    return isinstance(error, ConnectionTimeoutError)
