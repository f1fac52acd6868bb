"""Named implementations of one kind: built in, from installed packages, or from a user's file.

    LAYOUTS: Registry[Layout] = Registry(
        "benchmark layout", package="tasks.benchmarks.layouts", group="crosscheck.layouts"
    )

    @LAYOUTS.register("bird")
    class BirdLayout: ...

    LAYOUTS.get("bird")                     # imports the modules of the package first
    LAYOUTS.get("my-layout")                # an entry point `my-layout` of the group `crosscheck.layouts`
    LAYOUTS.get("path/to/mine.py:MyLayout") # an attribute of a file

Nothing is imported before the first look-up.
"""

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from tasks.errors import ConfigurationError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Named implementations of one kind, imported when they are first looked up.

    Args:
        kind: what the implementations are, for messages: "pipeline".
        package: package whose modules register the built-in ones when they are imported.
        group: group of entry points under which installed packages offer theirs.
    """

    def __init__(self, kind: str, *, package: str, group: str) -> None:
        self._kind = kind
        self._package = package
        self._group = group
        self._found: dict[str, T] = {}
        self._imported = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers an implementation under a name.

        Raises:
            ValueError: another implementation has that name.
        """

        def decorate(implementation: T) -> T:
            known = self._found.setdefault(name, implementation)
            if known is not implementation:
                raise ValueError(
                    f'two implementations of {self._kind} "{name}": {known} and {implementation}'
                )
            return implementation

        return decorate

    def names(self) -> tuple[str, ...]:
        """Return all names, built-in ones in the order of their registration, then those of installed packages."""
        self._import_built_in()
        offered = (point.name for point in importlib.metadata.entry_points(group=self._group))
        return tuple(dict.fromkeys((*self._found, *offered)))

    def get(self, name: str) -> T:
        """Return the implementation of a name, or of `path/to/file.py:attribute`.

        Raises:
            ConfigurationError: there is none, or its file or package cannot be imported.
        """
        self._import_built_in()
        if name in self._found:
            return self._found[name]
        for point in importlib.metadata.entry_points(group=self._group, name=name):
            try:
                found: T = point.load()
            except Exception as error:
                raise ConfigurationError(
                    f'The {self._kind} "{name}" of the entry point {point.value} cannot be imported: '
                    f"{type(error).__name__}: {error}"
                ) from error
            return self.register(name)(found)
        file, separator, attribute = name.rpartition(":")
        if separator and file.endswith(".py"):
            return self._from_file(Path(file), attribute)
        raise ConfigurationError(
            f'There is no {self._kind} "{name}". {did_you_mean(name, self.names())} '
            f"One of your own is named by path/to/file.py:attribute."
        )

    def _import_built_in(self) -> None:
        if self._imported:
            return
        self._imported = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")

    def _from_file(self, file: Path, attribute: str) -> T:
        module = import_file(file.expanduser(), self._kind)
        try:
            found: T = getattr(module, attribute)
        except AttributeError:
            public = [name for name in vars(module) if not name.startswith("_")]
            raise ConfigurationError(
                f'{file} has no {self._kind} "{attribute}". {did_you_mean(attribute, public)}'
            ) from None
        return found


def import_file(file: Path, kind: str) -> ModuleType:
    """Import a user's Python file, once per process.

    Args:
        file: its path.
        kind: what is looked for in it, for messages.

    Raises:
        ConfigurationError: it does not exist, or importing it fails.
    """
    path = file.resolve()
    name = f"crosscheck_user_files.{path.stem}_{abs(hash(path)):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigurationError(f"{file}: no such file, so there is no {kind} in it.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigurationError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    return module
