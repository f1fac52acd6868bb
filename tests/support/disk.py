"""A small disk of its own, where this process may mount one: full, or read-only, for as long as a block lasts."""

import os
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


class DamagedDisk(Disk):
    """Disk with a file system that can turn read-only at any moment, as Linux makes one after an error of the disk.

    Attributes:
        image: file that it is in.
    """

    def __init__(self, folder: Path, image: Path) -> None:
        super().__init__(folder)
        self.image = image

    def abort(self) -> None:
        """Let no further write succeed, also of files that are open; what was written before stays."""
        os.sync()
        _mount("-o", "remount,abort", str(self.folder))

    def repair(self) -> None:
        """Unmount the disk, repair the file system and mount it again."""
        subprocess.run(["umount", str(self.folder)], check=True)
        subprocess.run(["e2fsck", "-p", str(self.image)], capture_output=True, check=False)
        _mount("-o", "loop", str(self.image), str(self.folder))


@contextmanager
def ext4(folder: Path, size_mb: int) -> Iterator[DamagedDisk]:
    """Mount a disk with ext4 on a folder while the block runs; skips where none may be mounted."""
    folder.mkdir()
    image = folder.with_name(f"{folder.name}.img")
    try:
        with image.open("wb") as file:
            file.truncate(size_mb << 20)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True, capture_output=True)
        _mount("-o", "loop", str(image), str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    try:
        yield DamagedDisk(folder, image)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of 64 MB; skips where none may be mounted, as without the rights of root."""
    with mounted(tmp_path / "disk", SIZE_MB * 1024) as found:
        yield found


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
