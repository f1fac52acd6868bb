"""The frames of this project between a command and the HTTP requests of its model calls.

`python -m tests.support.frames FILE evaluate ...` runs a command in this process and writes one JSON line for each
request to FILE: the qualified names of the frames that were on the stack, outermost first. A stack ends where an
asyncio task begins, so each task remembers the stack that created it; together they are the whole way. Counted are
the frames of the modules `flows` and `tasks`, the click command's function first; comprehensions and lambdas are
frames too. Frames of click, asyncio, Prefect, the OpenAI client and httpx are not counted.
"""

import asyncio
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

_created_by: "WeakKeyDictionary[asyncio.Task[Any], list[str]]" = WeakKeyDictionary()


def own_frames() -> list[str]:
    """Return the frames of this project that led here, outermost first, across tasks."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "asyncio.events" and frame.f_code.co_name == "_run":
            break  # the task's own stack ends here
        if module.startswith(("flows.", "tasks.")):
            found.append(f"{module}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    found.reverse()
    return [*_stack_of_creator(), *found] if frame is not None else found


def _stack_of_creator() -> list[str]:
    task = asyncio.current_task()
    return _created_by.get(task, []) if task is not None else []


def install(log: Path) -> None:
    """Have every task remember who created it, and every request of the OpenAI client write its frames."""
    from openai import DefaultAioHttpClient

    create_task = asyncio.BaseEventLoop.create_task
    send = DefaultAioHttpClient.send

    def remembering(loop: asyncio.BaseEventLoop, *arguments: Any, **more: Any) -> "asyncio.Task[Any]":
        stack = own_frames()
        task = create_task(loop, *arguments, **more)
        _created_by[task] = stack
        return task

    async def writing(client: Any, request: Any, **more: Any) -> Any:
        if request.method == "POST":  # not the question for the models that comes first
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(own_frames()) + "\n")
        return await send(client, request, **more)

    asyncio.BaseEventLoop.create_task = remembering  # type: ignore[method-assign]
    DefaultAioHttpClient.send = writing  # type: ignore[assignment,method-assign]


def counted(frames: list[str]) -> list[str]:
    """Return the frames from the click command's function on."""
    start = next(place for place, name in enumerate(frames) if name.startswith("flows.cli.commands."))
    return frames[start:]


if __name__ == "__main__":
    from flows.cli.program import run

    install(Path(sys.argv[1]))
    sys.exit(run(sys.argv[2:]))
