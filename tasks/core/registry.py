"""Named implementations of one kind: built in, from installed packages, or from a user's file.

    LAYOUTS: Registry[type[Layout]] = Registry(
        "benchmark layout", package="tasks.benchmarks.layouts", group="crosscheck.layouts"
    )

    @LAYOUTS.register("spider")
    class SpiderLayout(Layout): ...

    LAYOUTS.get("spider")                   # imports the modules of the package first
    LAYOUTS.get("my-layout")                # an entry point `my-layout` of the group `crosscheck.layouts`
    LAYOUTS.get("path/to/mine.py:MyLayout") # an attribute of a file

Nothing is imported before the first look-up.
"""

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import logging
import pkgutil
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from tasks.core.errors import ConfigurationError, ExtensionError, did_you_mean

log = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")

USER_FILES = "crosscheck_user_files"
"""First part of the module name of every user's file."""


class Registry(Generic[T]):
    """Named implementations of one kind, imported when they are first looked up."""

    def __init__(self, kind: str, *, package: str, group: str, base: type[Any] = object) -> None:
        self.kind = kind  # what the implementations are, for messages: "pipeline"
        self.base = base  # the type of what installed packages offer
        self._package = package  # module, or package of modules, that registers the built-in ones
        self._group = group  # group of entry points under which installed packages offer theirs
        self._implementations: dict[str, T] = {}  # the built-in ones
        self._loaded: dict[str, T] = {}  # those of installed packages
        self._imported = False
        self._lock = threading.RLock()

    def register(self, name: str) -> Callable[[U], U]:
        """Return a decorator that registers an implementation under a name that no other one has."""

        def decorate(implementation: U) -> U:
            other = self._implementations.get(name)
            if other not in (None, implementation):
                raise ValueError(f'two implementations of {self.kind} "{name}": {other} and {implementation}')
            self._implementations[name] = cast(T, implementation)
            return implementation

        return decorate

    def names(self) -> tuple[str, ...]:
        """Return the names of the built-in ones and of those of installed packages, in alphabetical order."""
        self._import_built_in()
        return tuple(sorted({*self._implementations, *self.offered()}))

    def offered(self) -> tuple[str, ...]:
        """Return the names that installed packages offer, without importing anything."""
        return _offered(tuple(sys.path), self._group)

    def has(self, name: str) -> bool:
        """Return whether a name is one of `names`, or of the form `path/to/file.py:attribute`."""
        return is_in_file(name) or name in self.names()

    def get(self, name: str) -> T:
        """Return the implementation of a name, or of `path/to/file.py:attribute`."""
        self._import_built_in()
        if name in self._loaded:
            return self._loaded[name]
        if name in self._implementations:  # entry points are not read for these: that would slow every start
            return self._implementations[name]
        if name in self.offered():
            return self._load(name)
        if is_in_file(name):
            return cast(T, attribute_of_file(name, self.kind))
        raise ConfigurationError(
            f'There is no {self.kind} "{name}". {did_you_mean(name, self.names())} '
            f"One of your own is named path/to/file.py:attribute."
        )

    def usable(self) -> dict[str, T]:
        """Return all implementations by name, without those of installed packages that cannot be used.

        A warning names these: a broken package does not end what does not need it.
        """
        self._import_built_in()
        implementations = dict(sorted(self._implementations.items()))
        for name in self.offered():
            if name in implementations:
                self.warn_hidden(name)
                continue
            try:
                implementations[name] = self.get(name)
            except ConfigurationError as error:
                warn_once(f"{error} It is left out.")
        return implementations

    def warn_hidden(self, name: str) -> None:
        """Warn that a name stands for Crosscheck's own implementation, and not for that of an installed package."""
        warn_once(
            f'"{name}" is Crosscheck\'s own {self.kind}. That of an installed package is not used: '
            "rename its entry point."
        )

    def _load(self, name: str) -> T:
        """Import what an installed package offers."""
        entry_points = _entry_points(tuple(sys.path)).select(group=self._group, name=name)
        sources = sorted({point.value for point in entry_points})
        if len(sources) > 1:
            raise ConfigurationError(
                f'Two installed packages offer the {self.kind} "{name}" ({" and ".join(sources)}): uninstall one.'
            )
        entry_point = next(iter(entry_points))
        _PACKAGES.add(entry_point.module.partition(".")[0])
        subject = f'The {self.kind} "{name}" of the entry point {entry_point.value}'
        try:
            offered = entry_point.load()
        except (Exception, SystemExit) as error:
            raise ConfigurationError(f"{subject} cannot be imported: {described(error)}.") from error
        if not isinstance(offered, self.base):
            raise ConfigurationError(
                f"{subject} is of the type {type(offered).__name__}, not {self.base.__name__}."
            )
        self._loaded[name] = cast(T, offered)
        return self._loaded[name]

    def _import_built_in(self) -> None:
        """Import all modules of the package, once: they register what they define."""
        with self._lock:
            if self._imported:
                return
            self._imported = True  # before the imports: a module may look others up while it is imported
            try:
                package = importlib.import_module(self._package)
                for module in pkgutil.iter_modules(getattr(package, "__path__", [])):
                    if not module.ispkg:
                        importlib.import_module(f"{self._package}.{module.name}")
            except BaseException:
                self._imported = False
                raise


def is_in_file(name: str) -> bool:
    """Return whether a name is of the form `path/to/file.py:attribute`."""
    file, separator, attribute = name.rpartition(":")
    return bool(separator) and file.endswith(".py") and attribute.isidentifier()


def absolute(name: str, folder: Path) -> str:
    """Return a name of the form `path/to/file.py:attribute` with its path made absolute from a folder; others as is."""
    if not is_in_file(name):
        return name
    file, _, attribute = name.rpartition(":")
    return f"{(folder / Path(file).expanduser()).resolve()}:{attribute}"


def attribute_of_file(name: str, kind: str) -> Any:
    """Return what `path/to/file.py:attribute` names; the file is imported once per process.

    `kind` says in messages what is looked for.
    """
    file, _, attribute = name.rpartition(":")
    module = import_file(Path(file).expanduser(), kind)
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ConfigurationError(
            f'{file} has no {kind} "{attribute}". {did_you_mean(attribute, defined_in(module))}'
        ) from None


def defined_in(module: ModuleType) -> tuple[str, ...]:
    """Return the public names that a user's file defines itself, without those that it imports."""
    statements = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in statements
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return tuple(name for name in vars(module) if not name.startswith("_") and name not in imported)


def offers_extensions() -> bool:
    """Return whether an installed package offers an implementation of any kind."""
    return any(group.startswith("crosscheck.") for group in _entry_points(tuple(sys.path)).groups)


def own_sources() -> dict[str, str]:
    """Return what identifies the users' own code that was imported: digests of files, versions of packages.

    By `folder/file.py` and by the name of the distribution.
    """
    sources = {
        f"{path.parent.name}/{path.name}": hashlib.sha256(content).hexdigest()[:12]
        for path, content in _IMPORTED_FILES.values()
    }
    distributions = importlib.metadata.packages_distributions() if _PACKAGES else {}
    names = {name for package in _PACKAGES for name in distributions.get(package, ())}
    return sources | {name: importlib.metadata.version(name) for name in sorted(names)}


def extension_location(error: BaseException) -> str:
    """Return where an exception passed through a user's own code, "" if it did not: `vote.py:14, in vote`.

    Of several places, the one nearest to where it was raised.
    """
    location = ""
    if isinstance(error.__cause__, StopIteration):  # Python raises a RuntimeError in its place
        error = error.__cause__
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in (USER_FILES, *_PACKAGES):
            file = Path(frame.f_code.co_filename)
            path = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
            location = f"{path}:{line}, in {frame.f_code.co_name}"
    return location


def described(error: BaseException) -> str:
    """Return an exception in a line, with its place in a user's own code if it has one."""
    text = f"{type(error).__name__}: {error}"
    location = extension_location(error)
    return f"{location}: {text}" if location else text


def is_shipped(item: Any) -> bool:
    """Return whether a class or function is part of Crosscheck, and not a user's own."""
    return str(item.__module__).partition(".")[0] in ("flows", "tasks")


def called(function: Callable[..., T], *arguments: Any) -> T:
    """Call what may be a user's own code; raise an error if it takes other arguments."""
    try:
        return function(*arguments)
    except TypeError as error:
        if is_shipped(function) or extension_location(error):
            raise
        raise ExtensionError(
            f"{_name_of(function)} cannot be called as Crosscheck calls it: {error}"
        ) from error


def awaitable(function: Callable[..., Awaitable[T]], *arguments: Any) -> Awaitable[T]:
    """Call what may be a user's own async function; raise an error if it takes other arguments, or returns at once."""
    begun: Awaitable[T] = of_type(
        Awaitable, called(function, *arguments), f"{_name_of(function)} is not an `async def`: it returned"
    )
    return begun


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def of_type(kind: Any, value: Any, origin: str) -> Any:
    """Return a value that a user's own code may have made; raise an error if it is not of the type.

    `origin` is the beginning of its sentence: `Constant returned`.
    """
    if isinstance(value, kind):
        return value
    name = getattr(kind, "__name__", str(kind).rpartition(".")[2])  # a union has no name
    raise ExtensionError(f"{origin} a value of the type {type(value).__name__}, not a {name}")


def import_file(file: Path, kind: str) -> ModuleType:
    """Import a user's Python file, once per process unless `forget_changed_files` finds that it has changed.

    Its module name follows from its absolute path, so it is the same in every process. `kind` says in messages what is
    looked for in it.
    """
    path = file.resolve()
    name = f"{USER_FILES}.{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    with _IMPORTING:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise ConfigurationError(f"{file}: no such file, so there is no {kind} in it.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        _IMPORTED_FILES[name] = path, path.read_bytes()
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise ConfigurationError(f"{file} cannot be imported: {described(error)}") from error
        return module


def forget_changed_files() -> None:
    """Let users' files that were edited since their import be imported again: a notebook's process lives long."""
    with _IMPORTING:
        for name, (path, content) in _IMPORTED_FILES.items():
            if path.is_file() and path.read_bytes() != content:
                sys.modules.pop(name, None)


@cache
def warn_once(message: str) -> None:
    """Log a warning, once per process."""
    log.warning(message)


@cache
def _entry_points(path: tuple[str, ...]) -> Any:
    """Return the entry points of all packages on the module search path: reading them takes a tenth of a second."""
    return importlib.metadata.entry_points()


@cache
def _offered(path: tuple[str, ...], group: str) -> tuple[str, ...]:
    """Return the names of a group: selecting them for every database was a third of an evaluation's preparation."""
    return tuple(point.name for point in _entry_points(path).select(group=group))


_IMPORTING = threading.RLock()
_IMPORTED_FILES: dict[str, tuple[Path, bytes]] = {}
"""Users' files, by the names of their modules, and what was in them when they were imported."""
_PACKAGES: set[str] = set()
"""Top-level names of installed packages whose entry points have been used."""
