"""The parent's end of a worker's pipe: replies, one at a time."""

import asyncio
import pickle
import socket
from typing import Any

from tasks.database.sandbox.frames import HEADER

PART = 1 << 16
"""Bytes to receive at once."""


class FrameReader:
    """Receiver of frames, each sent when the one before has been taken.

    It stays registered with the loop until it is closed; `loop.sock_recv` would register and remove it for each frame.

    Args:
        connection: a socket that does not block.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._changed: asyncio.Future[None] | None = None
        self._ended = False
        self._loop.add_reader(connection, self._receive)

    async def next(self) -> Any:
        """Wait for the next frame, and return what was pickled.

        Raises:
            EOFError: the other side has closed.
        """
        while not self._complete:
            if self._ended:
                raise EOFError
            self._changed = self._loop.create_future()
            await self._changed
        frame, self._received = self._received, bytearray()
        return pickle.loads(memoryview(frame)[HEADER.size :])  # noqa: S301 - written by our own worker

    def close(self) -> None:
        """Stop receiving; a pending `next` raises EOFError."""
        if not self._ended:
            self._ended = True
            self._loop.remove_reader(self._socket)
            self._wake()

    @property
    def _complete(self) -> bool:
        received = self._received
        return len(received) >= HEADER.size and len(received) >= HEADER.size + HEADER.unpack_from(received)[0]

    def _receive(self) -> None:
        try:
            part = self._socket.recv(PART)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        self._received += part
        if not part:
            self.close()
        elif self._complete:
            self._wake()

    def _wake(self) -> None:
        if self._changed and not self._changed.done():
            self._changed.set_result(None)
