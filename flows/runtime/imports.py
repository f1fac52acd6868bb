"""Imports of large libraries without garbage collection."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Import modules in the block without garbage collection, and do not search their objects afterwards.

    What a module defines stays: searching it for garbage is a fifth of the time that Prefect's server takes to import.
    Once DuckDB is imported all objects are searched as usual: at exit it prints those that were not removed.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if "duckdb" not in sys.modules:
            gc.freeze()
        if was_enabled:
            gc.enable()
