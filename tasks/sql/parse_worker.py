"""What runs in the process of `parse_process`: parses one text after the other, each within its processor time."""

import contextlib
import signal
import sys
from multiprocessing.connection import Connection
from types import FrameType

from tasks.sql.parse_process import OVER, PARSE_CPU_S
from tasks.sql.parsing import Parsed, parse_here


class _OverrunError(BaseException):
    """The processor time of a text is used up; no `except Exception` within sqlglot may catch it."""


def serve(connection: Connection) -> None:
    """Parse what comes in, until the other end is closed."""

    def overrun(number: int, frame: FrameType | None) -> None:
        raise _OverrunError

    signal.signal(signal.SIGVTALRM, overrun)
    with contextlib.suppress(EOFError, OSError):
        while True:
            sql, dialect = connection.recv()
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, PARSE_CPU_S)
                parsed = parse_here(sql, dialect)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            except _OverrunError:
                parsed = Parsed(None, OVER)
            connection.send(parsed)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
