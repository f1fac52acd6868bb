"""A process that asks questions in batches: `python -m tests.support.batch_process KIND URL FOLDER COUNT`.

It prints a line with each answer. It makes the file `begun` before the first request.
"""

import asyncio
import sys
from pathlib import Path

from tasks.backbone.batches import backbone
from tasks.backbone.cache.store import SqliteReplyCache
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.protocol import Message, Request
from tasks.settings.backbone import BackboneSettings, MessagesSettings


def settings_of(kind: str, base_url: str) -> BackboneSettings:
    """Return the settings of a backbone that submits batches to a server."""
    of_kind = MessagesSettings if kind == "anthropic" else BackboneSettings
    return of_kind(
        name="fake", model="fake-1", base_url=base_url, tier="batch", response_mode="text", batch_quiet_s=0.05,
        batch_poll_s=0.02, max_wait_s=0.02, timeout_s=5.0,
    )  # fmt: skip


async def main(kind: str, base_url: str, folder: Path, count: int) -> None:
    """Ask the questions in two stages, the second of which needs the answers to the first."""

    async def ask(backbone: MeteredBackbone, number: int) -> None:
        for stage in ("first", "second"):
            request = Request((Message("user", f"{stage} {number}"),))
            sys.stdout.write(f"{(await backbone.complete(request)).text}\n")

    with SqliteReplyCache(folder / "replies.sqlite") as cache:
        async with open_backbone(settings_of(kind, base_url), RunResources(cache)) as backbone:
            (folder / "begun").touch()
            await asyncio.gather(*(ask(backbone, number) for number in range(count)))


if __name__ == "__main__":
    backbone.SUBMISSION_S = 2.0  # this process submits within milliseconds
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
