"""Progress of a deployed flow run, as a Prefect artifact."""

import asyncio
import logging
from contextlib import suppress
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)

UPDATE_EVERY_S = 5.0
KEY = "questions"


class ProgressArtifact:
    """Progress artifact of the running flow: a percentage on its page, also read by the flow that launched it.

    Args:
        what: name of the shard or evaluation.
        total: number of questions.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = max(1, total)
        self._done = 0
        self._ended = asyncio.Event()
        self._showing: asyncio.Task[None] | None = None

    def count(self) -> None:
        """Count one question."""
        self._done += 1

    async def __aenter__(self) -> Self:
        self._showing = asyncio.create_task(self._show())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._showing:
            await self._showing

    async def _show(self) -> None:
        from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

        try:
            artifact = await acreate_progress_artifact(0.0, key=KEY, description=f"Questions of {self._what}")
            while not self._ended.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), UPDATE_EVERY_S)
                await aupdate_progress_artifact(artifact, progress=100.0 * self._done / self._total)
        except Exception as error:  # an artifact that cannot be written must not lose an answer
            log.warning("the progress of %s cannot be shown: %s", self._what, error)
