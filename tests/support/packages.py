"""Installed packages of one module, which offer entry points."""

from pathlib import Path


def install(folder: Path, package: str, source: str, offers: str) -> None:
    """Install a package of one module, `source`, with the entry points `offers`."""
    (folder / f"{package}.py").write_text(source, encoding="utf-8")
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(offers, encoding="utf-8")
