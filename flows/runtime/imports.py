"""Import of MLflow while a command does other work."""

import threading

from flows.runtime.garbage import importing
from tasks.tracking.mlflow.quiet import import_store


def import_in_background() -> None:
    """Begin to import MLflow and its SQLite store in a thread: it takes seconds, and is not needed at once.

    `importlib_metadata`, which MLflow depends on, is imported before the thread starts: it registers itself with
    Python's import system when half imported, and another thread that looks for entry points then fails.
    """
    import importlib_metadata  # noqa: F401

    def work() -> None:
        with importing():
            import_store()

    threading.Thread(target=work, name="import mlflow", daemon=True).start()
