"""Types of the values of options and arguments, which are checked before a command begins."""

import math
from pathlib import Path
from typing import Any

import click

from flows.runtime.output import check_page
from tasks.core.files import check_writable


class Number(click.FloatRange):
    """A number within bounds, which NaN and infinity are not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of a text."""
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{value} is not a finite number.", param, ctx)


class Text(click.types.StringParamType):
    """A text that is not empty: `--home "$FOLDER"` with a variable that is not set names no folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a text."""
        if value == "":
            self.fail("it is empty.", param, ctx)
        return super().convert(value, param, ctx)


class FilePath(click.Path):
    """A path, in which `~` is the user's home."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a text."""
        return super().convert(Path(Text().convert(value, param, ctx)).expanduser(), param, ctx)


class NewFile(FilePath):
    """A file that a command writes at its end: it is checked before the work."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a text."""
        path = super().convert(value, param, ctx)
        check_writable(path, param.opts[0] if param else "")
        return path


class PageFile(FilePath):
    """The file of an HTML page that a command writes at its end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a text."""
        path = super().convert(value, param, ctx)
        check_page(path)
        return path
