"""Modules that are imported with the first of their names that is used, so that commands without them start at once."""

from importlib import import_module
from typing import Any


class LazyModule:
    """A module that takes long to import. For type checkers, import it beside under `TYPE_CHECKING`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value
