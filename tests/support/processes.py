"""Processes that this one has started: how much they have worked, which a busy machine does not change."""

import asyncio
import multiprocessing
import resource
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psutil


def at_once(count: int, work: Callable[[], object]) -> None:
    """Do a piece of work in so many new processes, which all begin it at the same moment."""
    spawn = multiprocessing.get_context("spawn")
    ready = spawn.Barrier(count)
    processes = [spawn.Process(target=_when_all_are_ready, args=(ready, work)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * count


def _when_all_are_ready(ready: Barrier, work: Callable[[], object]) -> None:
    ready.wait()
    work()


def cpu_of_children() -> float:
    """Return the processor seconds of all child processes, ended ones included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system
    return total


def processes_of(home: Path) -> dict[int, str]:
    """Return every process whose environment names a working folder, with its command."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("CROSSCHECK_HOME") == str(home):
                found[process.pid] = " ".join(process.cmdline())
    return found


async def until_busy(pid: int) -> None:
    """Wait until a process has worked for a twentieth of a second more."""
    process = psutil.Process(pid)
    before = sum(process.cpu_times()[:2])
    while sum(process.cpu_times()[:2]) < before + 0.05:
        await asyncio.sleep(0.01)


async def until_ended(pid: int) -> bool:
    """Wait until a process and all of its threads have ended; False after a minute. Nobody need ask for its exit code.

    The main thread of a killed process can be a zombie while another still ends.
    """
    for _ in range(6000):
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1:
                return True
        except psutil.NoSuchProcess:
            return True
        await asyncio.sleep(0.01)
    return False
