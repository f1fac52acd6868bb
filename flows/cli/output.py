"""Output of commands: a JSON object for scripts, text for users, and HTML pages."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from tasks.errors import ConfigurationError


def emit_json(value: Any) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")


def emit(value: Any, show: Callable[[TextIO], None], *, as_json: bool, text_too: bool = True) -> None:
    """Print a result.

    Args:
        value: the result as plain JSON.
        show: prints the result as text to a stream.
        as_json: whether `--json` was given.
        text_too: whether the text is printed to standard error in addition to the JSON.
    """
    if not as_json:
        show(sys.stdout)
        return
    emit_json(value)
    if text_too:
        show(sys.stderr)


def write_page(page: str, file: Path, *, make_folder: bool = False) -> None:
    """Write an HTML page to the file of `--html`.

    Args:
        page: the HTML.
        file: where it is written.
        make_folder: whether its folder is created where it is missing.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        if make_folder:
            file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"--html {file}: the page cannot be written: {error.strerror}. Name a file in a folder that exists."
        ) from error
