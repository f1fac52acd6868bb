"""Order of events at Prefect's server: those from before its start are not waited for.

Prefect's automations wait up to 15 minutes for the event that an event follows, and remember in memory what they have
handled: after a restart, the notification of a nightly run that died with the machine would come 15 minutes late.

Prefect imports this module by its name (PREFECT_SERVER_EVENTS_CAUSAL_ORDERING).
"""

import time

from prefect.server.events.ordering import memory
from prefect.server.events.schemas.events import ReceivedEvent

_STARTED_MS = time.time_ns() // 1_000_000


class CausalOrdering(memory.CausalOrdering):
    """Prefect's order of events in memory, without a wait for events from before the start of the server."""

    async def wait_for_leader(self, event: ReceivedEvent) -> None:
        """Wait for the event that this one follows, if it is younger than the server."""
        leader = event.follows
        if leader is not None and leader.version == 7 and leader.int >> 80 < _STARTED_MS:
            return  # the first 48 bits of a UUID of version 7 are its time in ms
        await super().wait_for_leader(event)
