"""A small disk of its own, where this process may mount one: full, or read-only, for as long as a block lasts."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SIZE_MB = 64


class Disk:
    """A mounted disk.

    Attributes:
        folder: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def full(self, leaving: int = 0) -> Iterator[None]:
        """Leave so many free bytes on the disk, and no more, while the block runs."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    continue
            file.truncate(max(0, file.tell() - leaving))
        try:
            yield
        finally:
            filler.unlink()

    @contextmanager
    def read_only(self) -> Iterator[Path]:
        """Yield the folder where the disk is mounted a second time, so that nothing can be written there."""
        second = self.folder.with_name(f"{self.folder.name}-read-only")
        second.mkdir()
        _mount("--bind", str(self.folder), str(second))
        try:
            _mount("-o", "remount,bind,ro", str(second))
            yield second
        finally:
            subprocess.run(["umount", "--lazy", str(second)], check=True)


@contextmanager
def mounted(folder: Path, size_kb: int) -> Iterator[Disk]:
    """Mount a disk on a folder while the block runs; skips where none may be mounted."""
    folder.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", f"size={size_kb}k", "crosscheck-test", str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of 64 MB; skips where none may be mounted, as without the rights of root."""
    with mounted(tmp_path / "disk", SIZE_MB * 1024) as found:
        yield found


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
