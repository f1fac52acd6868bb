"""The file of a bundle: a zip archive of texts, with a manifest of their sha256 digests.

The same content gives the same bytes: names are sorted, and the archive holds no times and no owners.
"""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.core.errors import ConfigurationError, DataError
from tasks.core.files import atomic_write
from tasks.core.wording import shorten, size

FORMAT = "crosscheck-bundle"
LAYOUT = 1
MANIFEST = "manifest.json"
MOST_BYTES = 2**30
"""Most bytes of all files of a bundle, unpacked."""

_BEGINNING = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Archive:
    """A bundle's file as read, with every digest checked."""

    digest: str  # sha256 of the manifest, and so of everything
    files: Mapping[str, bytes] = field(repr=False)  # by name, without the manifest


def write_archive(path: Path, files: Mapping[str, bytes]) -> str:
    """Write an archive, whole or not at all, and return the sha256 of its manifest.

    Raises:
        ConfigurationError: it cannot be written.
    """
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    manifest = json.dumps({"format": FORMAT, "layout": LAYOUT, "sha256": digests}, indent=1).encode()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, part in ((MANIFEST, manifest), *sorted(files.items())):
            entry = zipfile.ZipInfo(name, _BEGINNING)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, part)
    try:
        with atomic_write(path) as draft:
            draft.write_bytes(content.getvalue())
    except OSError as error:
        raise ConfigurationError(
            f"--output {path}: the bundle cannot be written: {error.strerror}. Name another file."
        ) from None
    return hashlib.sha256(manifest).hexdigest()


def read_archive(path: Path) -> Archive:
    """Read an archive and check every digest.

    Raises:
        ConfigurationError: the file cannot be read.
        DataError: it is no bundle, of a newer layout, or was changed.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            files = _contents(archive, path)
    except OSError as error:
        raise ConfigurationError(f"The bundle {path} cannot be read: {error.strerror}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(
            f"{path} is not a whole bundle ({error}). Copy it again, or have it exported again."
        ) from None
    manifest = files.pop(MANIFEST, b"")
    expected = _digests(manifest, path)
    found = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    if changed := sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name)):
        raise DataError(
            f"{path} was changed after it was exported: the sha256 of {shorten(changed, 5)} differs from that in "
            f"{MANIFEST}. Nothing is read from it. Have the bundle exported again."
        )
    return Archive(hashlib.sha256(manifest).hexdigest(), files)


def _contents(archive: zipfile.ZipFile, path: Path) -> dict[str, bytes]:
    """Return every file of an archive, none of them larger than the archive says."""
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > MOST_BYTES:
        raise DataError(f"{path} would be more than {size(MOST_BYTES)} when unpacked, and no bundle is.")
    if len({entry.filename for entry in entries}) < len(entries):
        raise DataError(f"{path} has two files of one name, and no bundle has. Have it exported again.")
    return {entry.filename: archive.read(entry) for entry in entries}


def _digests(manifest: bytes, path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(manifest)
        form, layout, digests = content["format"], content["layout"], dict(content["sha256"])
    except (ValueError, KeyError, TypeError):
        form, layout, digests = "", 0, {}
    if form != FORMAT:
        raise DataError(
            f'{path} is not a bundle of Crosscheck: it has no valid {MANIFEST}. "crosscheck export RUN --bundle" '
            "writes one."
        )
    if layout != LAYOUT:
        raise DataError(
            f"{path} has the layout {layout}; this release reads layout {LAYOUT}. Use the release that wrote it."
        )
    return digests
