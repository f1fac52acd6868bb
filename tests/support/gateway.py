"""A TCP gateway to a real server that can be closed and opened again, as a network is."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Gateway:
    """TCP proxy from `port` to a server on this machine, while it is open."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._sockets: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.port = 0
        self.open()

    def open(self) -> None:
        """Take connections, on the same port as before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener, self.port = listener, listener.getsockname()[1]
        threading.Thread(target=self._listen, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Break every connection, and refuse new ones."""
        if self._listener:
            _shut(self._listener)
        for each in self._sockets:
            _shut(each)
        self._sockets.clear()

    def _listen(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._sockets += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=(source, target), daemon=True).start()


@contextmanager
def gateway_to(server_port: int) -> Iterator[Gateway]:
    """Yield an open gateway."""
    gateway = Gateway(server_port)
    try:
        yield gateway
    finally:
        gateway.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
    _shut(source)
    _shut(target)


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
