"""Remote storage for tests: fsspec's memory behind a network that can be watched, held up and cut."""

import threading
from collections.abc import Iterator

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem


class Network:
    """Network between a test and its storage.

    Attributes:
        cut: while set, nothing gets through.
        open: while clear, everything waits.
        calls: how often the storage was asked.
        waiting: how many wait for an answer.
    """

    def __init__(self) -> None:
        self.cut = False
        self.open = threading.Event()
        self.open.set()
        self.calls = 0
        self.waiting = 0
        self._lock = threading.Lock()

    def pass_through(self) -> None:
        """Stand for one round trip."""
        with self._lock:
            self.calls += 1
            self.waiting += 1
        try:
            if self.cut:
                raise ConnectionError("the network is down")
            assert self.open.wait(300), "the network was held up for ever"
        finally:
            with self._lock:
                self.waiting -= 1


NETWORK = Network()


class FarFileSystem(MemoryFileSystem):
    """fsspec's memory at `far://`."""

    protocol = "far"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("far://", "memory://")))

    def cat_file(self, path, start=None, end=None, **kwargs):  # type: ignore[no-untyped-def]
        NETWORK.pass_through()
        return super().cat_file(path, start, end, **kwargs)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):  # type: ignore[no-untyped-def]
        NETWORK.pass_through()
        return super().pipe_file(path, value, mode, **kwargs)

    def _open(self, path, *arguments, **kwargs):  # type: ignore[no-untyped-def]
        NETWORK.pass_through()
        return super()._open(path, *arguments, **kwargs)


fsspec.register_implementation("far", FarFileSystem, clobber=True)


@pytest.fixture
def network() -> Iterator[Network]:
    """The network to `far://`, in order, with nothing behind it."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    NETWORK.__init__()  # type: ignore[misc]
    yield NETWORK
    NETWORK.cut = False
    NETWORK.open.set()
