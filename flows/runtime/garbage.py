"""Garbage collection in a process that imports large libraries.

What a module defines stays, and searching it for garbage is a quarter of the time that Prefect and MLflow take to
import. Objects without references are removed at once as always; this is about circles of references only.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (10_000, 50, 10)
"""New objects after which these are searched (Python's own: 700), such searches before the survivors of earlier ones
are searched too, and searches of those before all objects are."""


def collect_garbage_seldom() -> None:
    """Search for garbage seldom in this process, which belongs to Crosscheck."""
    gc.set_threshold(*SELDOM)
    # At its end Python removes what is garbage then. DuckDB prints what is left of it as leaks.
    atexit.register(gc.unfreeze)


@contextmanager
def importing() -> Iterator[None]:
    """Do not search for garbage while the body imports large libraries, and never in what exists at its end.

    A process that does not search seldom belongs to a user's program, and searches as always.
    """
    if gc.get_threshold() != SELDOM:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
