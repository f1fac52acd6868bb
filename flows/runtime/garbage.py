"""Garbage collection in a process that imports large libraries."""

import gc


def collect_garbage_seldom() -> None:
    """Search for garbage after 10,000 new objects instead of 700, and in all objects after 500 such searches.

    What a module defines stays, and searching it for garbage is a quarter of the time that Prefect and MLflow take to
    import. Objects without references are removed at once as always; this is about circles of references only.
    """
    gc.set_threshold(10_000, 50, 10)
