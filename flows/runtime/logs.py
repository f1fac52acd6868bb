"""Log file of the working folder, for warnings and details that are not printed on the terminal."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks.backbone.cache.room import lost
from tasks.database.sqlite import damage
from tasks.settings.home import Home


def log_file(home: Home) -> Path:
    """Return the path of the working folder's log."""
    return home.path / "crosscheck.log"


class _LogFile(logging.FileHandler):
    """File whose lines are dropped where it cannot be opened: its folder was removed, or the disk is full."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # `FileHandler` opens the file outside of what `raiseExceptions` covers
            super().emit(record)


@contextmanager
def logging_to(home: Home) -> Iterator[None]:
    """Write warnings to the log file, and what is set aside or lost to the terminal as well."""
    terminal = logging.StreamHandler()
    terminal.setFormatter(logging.Formatter("crosscheck: %(message)s"))
    for shown in (damage.log, lost):
        shown.addHandler(terminal)
    handler = _LogFile(log_file(home), delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    # A line that cannot be written, for example on a full disk, is dropped without a traceback.
    raise_exceptions, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        yield
    finally:
        logging.raiseExceptions = raise_exceptions
        logging.captureWarnings(False)
        root.removeHandler(handler)
        for shown in (damage.log, lost):
            shown.removeHandler(terminal)
        handler.close()
