"""Arguments of the public interface as the texts and files that commands take, and work on threads of its own."""

import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from pydantic import ValidationError

from flows.runtime.control import Control
from tasks.core.errors import ConfigurationError, DataError
from tasks.core.wording import sentence
from tasks.settings.choices import QuestionSelection

Settings = Mapping[str, Any]
Ids = str | int | Iterable[str | int]


def checked_mapping(name: str, value: Any, example: Mapping[str, Any]) -> Mapping[Any, Any]:
    """Return an argument that has to be a mapping; None: an empty one."""
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise ConfigurationError(f"{name}={value!r}: write a mapping of keys to values, {example}.")


def check_types(**values: tuple[Any, type | UnionType]) -> None:
    """Raise an error if an argument is not of its type. Each keyword names an argument and gives its value and type.

    >>> check_types(margin=("a lot", float | None))
    Traceback (most recent call last):
    tasks.core.errors.ConfigurationError: margin='a lot' is not of the type float | None.
    """
    for name, (value, kind) in values.items():
        if not isinstance(value, kind):
            type_name = kind.__name__ if isinstance(kind, type) else str(kind)
            raise ConfigurationError(f"{name}={value!r} is not of the type {type_name}.")


def listed(values: Any) -> list[Any]:
    """Return values as a list; a text or number is one value.

    >>> listed("bird"), listed(3), listed((0, 3))
    (['bird'], [3], [0, 3])
    """
    is_single = isinstance(values, str | Path | Mapping) or not isinstance(values, Iterable)
    return [values] if is_single else list(values)


def overrides(settings: Settings | None) -> tuple[str, ...]:
    """Return settings as texts for `--set`, whose values are YAML, of which JSON is a part.

    >>> overrides({"backbone.retries": 3, "benchmark.folder": Path("my/data")})
    ('backbone.retries=3', 'benchmark.folder="my/data"')
    """
    values = checked_mapping("settings", settings, {"pipeline.demonstrations.k": 3})
    try:
        return tuple(
            f"{key}={json.dumps(value, ensure_ascii=False, default=_plain)}" for key, value in values.items()
        )
    except (TypeError, ValueError) as error:  # a key that is no text, or a value that contains itself
        raise ConfigurationError(f"settings={settings!r}: JSON cannot write it: {error}.") from None


def _plain(value: Any) -> Any:
    """Return a number or array of numpy as plain values, anything else as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def grid_axes(grid: Mapping[str, Any] | None) -> list[list[str]]:
    """Return the values of each setting as texts for `--set`.

    >>> grid_axes({"pipeline.demonstrations.k": [0, 3]})
    [['pipeline.demonstrations.k=0', 'pipeline.demonstrations.k=3']]
    """
    axes = checked_mapping("grid", grid, {"pipeline.demonstrations.k": [0, 3]})
    return [[overrides({key: value})[0] for value in listed(values)] for key, values in axes.items()]


def ids(questions: Ids | None) -> str | None:
    """Return ids of questions as `--questions` takes them; None: all."""
    if questions is None or isinstance(questions, str):
        return questions
    return ",".join(map(str, listed(questions)))


def selection(questions: Ids | None, limit: int | None) -> QuestionSelection:
    """Return which questions the arguments select."""
    with arguments_named():
        return QuestionSelection(questions=ids(questions), limit=limit)


def text(path: str | Path | None) -> str | None:
    """Return a path as text."""
    return None if path is None else str(path)


@contextmanager
def arguments_named() -> Iterator[None]:
    """Say which argument is not valid, in place of pydantic's ValidationError."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"{name}={first['input']!r}: {sentence(reason)}") from None


@contextmanager
def as_file(predictions: str | Path | Mapping[Any, str | None]) -> Iterator[Path]:
    """Yield the file of predictions; predictions by id are written to a temporary one."""
    if isinstance(predictions, str | Path):
        yield Path(predictions).expanduser()
        return
    if not checked_mapping("predictions", predictions, example={"1": "SELECT 1"}):
        raise DataError("predictions={}: there is no prediction to score.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.jsonl"
        lines = (
            json.dumps({"question_id": id_, "sql": _sql(id_, sql)}, default=_plain)
            for id_, sql in predictions.items()
        )
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield file


def _sql(id_: Any, sql: Any) -> str | None:
    """Return a prediction; None for a missing value of a frame."""
    from pandas import NA

    if isinstance(sql, str) or sql is None:
        return sql
    if sql is NA or (isinstance(sql, float) and isnan(sql)):
        return None
    raise DataError(f"predictions[{id_!r}]={sql!r}: a prediction is a text, or None.")


T = TypeVar("T")

_environment_lock = threading.Lock()


def in_thread(work: Callable[[], T], controls: Sequence[Control] = ()) -> T:
    """Run blocking work, which may start an event loop, in a thread of its own and return its result.

    The first Ctrl-C, or interrupt of a notebook's cell, asks the last control for an orderly stop, a second one for an
    immediate stop. Without controls, the interrupt is raised immediately, and the work ends on its own.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # raised again in the calling thread
            result.set_exception(error)

    def handle_interrupt(*_: Any) -> None:
        if not controls or controls[-1].stop_now.is_set() or result.done():
            raise KeyboardInterrupt
        controls[-1].ask_to_stop()

    with _on_interrupt(handle_interrupt):
        threading.Thread(target=run, name="crosscheck", daemon=True).start()
        return result.result()


@contextmanager
def _on_interrupt(handler: Callable[..., None]) -> Iterator[None]:
    """Call a handler at each SIGINT while the block runs, in the main thread; elsewhere, only run the block.

    Another interrupt cannot break the handler in its middle, as it could an `except KeyboardInterrupt` clause.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone receives signals
        yield
        return
    previous_handler = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler or signal.SIG_DFL)  # None: it was not set by Python


@contextmanager
def restored_environment() -> Iterator[None]:
    """Restore the environment's variables at the end, which configure Prefect in between; one block at a time."""
    with _environment_lock:
        saved = dict(os.environ)
        try:
            yield
        finally:
            for name in os.environ.keys() - saved.keys():
                del os.environ[name]
            os.environ.update(saved)
