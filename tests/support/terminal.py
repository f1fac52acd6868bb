"""A terminal for tests: runs a command in one, and knows what stood on its screen, now and before."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|[\r\n\x08]|[^\x1b\r\n\x08]+|\x1b")


@dataclass
class Screen:
    """The little of a terminal that progress displays use: lines, a cursor, erasing; colours are ignored.

    Attributes:
        columns: its width.
        lines: its current content, including lines that scrolled away.
        seen: every state that a line has had when the cursor left it or it was erased.
        cursor_hidden: whether the cursor is invisible.
        raw: everything that was written.
    """

    columns: int = 80
    lines: list[str] = field(default_factory=lambda: [""])
    seen: list[str] = field(default_factory=list)
    cursor_hidden: bool = False
    raw: str = ""
    _row: int = 0
    _column: int = 0

    @property
    def text(self) -> str:
        """Text on the screen, without trailing blanks."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")

    def write(self, text: str) -> None:
        """Show text."""
        self.raw += text
        for token in _CONTROL.finditer(text):
            if token[2]:
                self._command(token[1], token[2])
            elif token[0] == "\n":
                self._move(self._row + 1)
            elif token[0] == "\r":
                self._column = 0
            elif token[0] == "\x08":
                self._column = max(0, self._column - 1)
            else:
                self._put(token[0])

    def _put(self, text: str) -> None:
        while text:
            if self._column >= self.columns:
                self._move(self._row + 1)
                self._column = 0
            part, text = text[: self.columns - self._column], text[self.columns - self._column :]
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + part + line[self._column + len(part) :]
            self._column += len(part)

    def _command(self, parameters: str, letter: str) -> None:
        number = int(parameters) if parameters.isdigit() else 1
        if letter == "m":
            return  # a colour
        if letter == "A":
            self._move(max(0, self._row - number))
        elif letter == "B":
            self._move(self._row + number)
        elif letter == "K":
            self.seen.append(self.lines[self._row])
            self.lines[self._row] = "" if parameters == "2" else self.lines[self._row][: self._column]
        elif parameters == "?25":
            self.cursor_hidden = letter == "l"
        else:
            raise AssertionError(
                f"this terminal does not know the control sequence ESC [ {parameters}{letter}"
            )

    def _move(self, row: int) -> None:
        self.seen.append(self.lines[self._row])
        while len(self.lines) <= row:
            self.lines.append("")
        self._row = row


def run_in_terminal(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], columns: int = 80, answer: str = ""
) -> tuple[int, Screen]:
    """Run a command whose input, output and errors are a terminal; return its exit code and the screen.

    Args:
        command: program and arguments.
        cwd: where it runs.
        environment: all of its environment.
        columns: width of the terminal.
        answer: what is typed, right at the beginning.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        list(command), cwd=cwd, env=dict(environment), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    if answer:
        os.write(ours, answer.encode())
    written = b""
    try:
        while data := os.read(ours, 65536):
            written += data
    except OSError:  # Linux raises it when the other end has been closed
        pass
    finally:
        os.close(ours)
    screen = Screen(columns)
    screen.write(written.decode("utf-8", "replace"))
    return process.wait(timeout=300), screen
