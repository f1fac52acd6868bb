"""Where warnings and details go: a file in the working folder, never the terminal."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.settings.home import Home


def log_file(home: Home) -> Path:
    """Return the log of everything that ran with this working folder."""
    return home.path / "crosscheck.log"


@contextmanager
def logging_to(home: Home) -> Iterator[None]:
    """Send warnings of this project and its libraries into a file instead of onto the terminal."""
    handler = logging.FileHandler(log_file(home), delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    complaining, logging.raiseExceptions = (
        logging.raiseExceptions,
        False,
    )  # a full disk is no reason for a traceback
    try:
        yield
    finally:
        logging.raiseExceptions = complaining
        logging.captureWarnings(False)
        root.removeHandler(handler)
        handler.close()
