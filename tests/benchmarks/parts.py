"""What the scripts have in common."""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml


def options_of(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is a script's docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def local_backbone(folder: Path, url: str, **settings: Any) -> str:
    """Write the settings of a model at a local API, and return the file's path."""
    file = folder / f"local-{url.rpartition(':')[2].partition('/')[0]}.yaml"
    known = {"name": "local", "model": "local", "base_url": url, "unreadable_limit": 0}
    file.write_text(yaml.safe_dump(known | settings), encoding="utf-8")
    return str(file)


class Timed(NamedTuple):
    """A program that has ended: its seconds, the processor seconds of all its processes, and what it printed."""

    seconds: float
    cpu_s: float
    out: str


def timed(
    words: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Timed:
    """Run a program to its end, with these variables besides those of this process."""
    before, started = processor_time(), time.perf_counter()
    ran = subprocess.run(
        words, env={**os.environ, **(environment or {})}, cwd=folder, capture_output=True, text=True
    )
    if ran.returncode:
        raise SystemExit(f"{words[:4]}: {ran.stdout[-500:]}{ran.stderr[-2000:]}")
    return Timed(time.perf_counter() - started, processor_time() - before, ran.stdout)


def crosscheck(home: Path, *arguments: str) -> str:
    """Run a command with a working folder; return what it printed."""
    words = [sys.executable, "-m", "flows.cli", *arguments]
    return timed(words, {"CROSSCHECK_HOME": str(home)}, Path(__file__).parents[2]).out


def processor_time() -> float:
    """Return the processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
