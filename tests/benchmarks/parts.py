"""What the scripts have in common."""

import argparse
import resource
from pathlib import Path
from typing import Any

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


def processor_time() -> float:
    """Return the processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
