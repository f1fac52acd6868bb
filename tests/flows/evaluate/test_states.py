"""How a deployed flow ends on an error."""

import errno
from typing import Any

from prefect.client.schemas.objects import State

from flows.evaluate.deployment import as_prefect_state


async def test_a_disk_that_takes_nothing_is_a_failure_with_a_message() -> None:
    async def full() -> State[Any]:
        raise OSError(errno.ENOSPC, "No space left on device", "/home/nights/night.json")

    state = await as_prefect_state(full())
    assert (state.type.value, state.name) == ("FAILED", "Failed")
    assert str(state.message).startswith(
        "No space left on device (/home/nights/night.json). Check that the disk"
    )
