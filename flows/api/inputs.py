"""Arguments of the public interface as the texts and files that commands take."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.core.errors import ConfigurationError

Settings = Mapping[str, Any]
Ids = str | Iterable[str | int]


def overrides(settings: Settings | None) -> tuple[str, ...]:
    """Return settings as texts for `--set`, whose values are YAML, of which JSON is a part."""
    return tuple(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in (settings or {}).items())


def grid_axes(grid: Mapping[str, Sequence[Any]] | None) -> list[list[str]]:
    """Return the values of each setting as texts for `--set`.

    >>> grid_axes({"pipeline.demonstrations.k": [0, 3]})
    [['pipeline.demonstrations.k=0', 'pipeline.demonstrations.k=3']]
    """
    return [[overrides({key: value})[0] for value in values] for key, values in (grid or {}).items()]


def ids(questions: Ids | None) -> str | None:
    """Return ids of questions as `--questions` takes them; None: all."""
    if questions is None or isinstance(questions, str):
        return questions
    return ",".join(str(each) for each in questions)


def text(path: str | Path | None) -> str | None:
    """Return a path as text."""
    return None if path is None else str(path)


@contextmanager
def arguments_named() -> Iterator[None]:
    """Say which argument is not valid.

    Raises:
        ConfigurationError: in the place of pydantic's ValidationError.
    """
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ConfigurationError(
            f"{name}={first['input']!r}: {first['msg'].removeprefix('Value error, ')}."
        ) from None


@contextmanager
def as_file(predictions: str | Path | Mapping[Any, str | None]) -> Iterator[Path]:
    """Yield the file of predictions; predictions by id are written to a temporary one."""
    if not isinstance(predictions, Mapping):
        yield Path(predictions).expanduser()
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "predictions.jsonl"
        lines = (json.dumps({"question_id": id_, "sql": sql}) for id_, sql in predictions.items())
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield file
