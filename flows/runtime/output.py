"""Output of commands and of the Python interface: JSON for scripts, HTML pages, frames for notebooks."""

import csv
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tasks.core.errors import ConfigurationError
from tasks.core.files import check_writable

if TYPE_CHECKING:
    from pandas import DataFrame

_FORMULA = re.compile(r"[=@\t\n]|[+-](?!(?:inf|[\d.]+(?:e[+-]\d+)?)[ %]*\Z)")
"""Beginning of a formula. A text with + or - at its front is none if it is a number: -1.5, +2e+3 %, -inf."""
DOCTYPE = b"<!DOCTYPE html"
_CARRIAGE_RETURN = re.compile(r"\r\n?")


def emit_json(value: Any) -> None:
    """Print a record as one JSON object on standard output; what JSON has no form for, as infinity, becomes text."""
    from tasks.results.run_record import json_of
    from tasks.results.warehouse.views import plain

    document = value if isinstance(value, dict) else json_of(value)
    sys.stdout.write(json.dumps(plain(document), ensure_ascii=False, allow_nan=False) + "\n")


def open_in_browser(address: str) -> None:
    """Open an address in a browser; where there is none, print it."""
    import webbrowser

    if not webbrowser.open(address):
        sys.stderr.write(f"No browser can be opened here. Open {address} in one.\n")


def write_csv(rows: Iterable[Sequence[object]], stream: TextIO) -> None:
    """Write rows as CSV; a text that spreadsheets would compute as a formula gets an apostrophe before it."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows(
        [_without_formula(value) if isinstance(value, str) else value for value in row] for row in rows
    )


def _without_formula(text: str) -> str:
    text = _CARRIAGE_RETURN.sub("\n", text)  # `csv` would leave one unquoted, where readers see another row
    return f"'{text}" if _FORMULA.match(text) else text


def check_page(file: Path) -> None:
    """Check, before any work, that the file of `--html` can be written, and is no file that is not a page."""
    check_writable(file, "--html")
    if not file.is_file():
        return
    with suppress(OSError), file.open("rb") as content:
        start = content.read(len(DOCTYPE))
        if start and start != DOCTYPE:
            raise ConfigurationError(
                f"--html {file}: this file is not an HTML page. Name another file, or remove it."
            )


def write_page(page: str, file: Path, *, make_folder: bool = False) -> None:
    """Write an HTML page to the file of `--html`; with `make_folder` also where its folder is missing."""
    write_text(page, file, "--html", "page", make_folder=make_folder)


def write_text(text: str, file: Path, option: str, what: str, *, make_folder: bool = False) -> None:
    """Write a text to the file that an option names; what UTF-8 cannot hold becomes "?".

    The error calls the text `what`, "page". A new file that cannot be written in full is removed.
    """
    existed = file.exists()
    try:
        if make_folder:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        if not existed:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        raise ConfigurationError(
            f"{option} {file}: the {what} cannot be written: {error.strerror}. Name a file in a folder that exists."
        ) from error


def frame(objects: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> "DataFrame":
    """Return objects as a frame in which what is unknown is `<NA>`, never 0 or NaN."""
    from pandas import NA, DataFrame

    table = DataFrame(list(objects), columns=list(columns), dtype=object)
    # Whole floats, such as costs of 0.0, would become integers, and integers beside None floats.
    floats = [name for name in table if any(isinstance(value, float) for value in table[name])]
    for name in table:
        table[name] = table[name].where(table[name].notna(), NA)
    return table.convert_dtypes().astype(dict.fromkeys(floats, "Float64"))
