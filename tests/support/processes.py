"""Processes that this one has started: how much they have worked, which a busy machine does not change."""

import asyncio
import resource
from contextlib import suppress

import psutil


def cpu_of_children() -> float:
    """Return the processor seconds of all child processes, ended ones included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system
    return total


async def until_busy(pid: int) -> None:
    """Wait until a process has worked for a twentieth of a second more."""
    process = psutil.Process(pid)
    before = sum(process.cpu_times()[:2])
    while sum(process.cpu_times()[:2]) < before + 0.05:
        await asyncio.sleep(0.01)


async def until_ended(pid: int) -> bool:
    """Wait until a process has ended, though perhaps nobody has asked for its exit code; False after a minute."""
    for _ in range(6000):
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0.01)
                continue
        return True
    return False
