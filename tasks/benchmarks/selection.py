"""Which questions of a benchmark to run: `--questions 717-845,900`, `--questions @ids.txt`, `--limit 20`."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.core.errors import ConfigurationError, did_you_mean
from tasks.core.files import read_file
from tasks.core.records import Question
from tasks.core.wording import shorten
from tasks.settings.choices import QuestionSelection
from tasks.settings.home import find_conf

_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")


def select(questions: Sequence[Question], selection: QuestionSelection) -> tuple[Question, ...]:
    """Return the selected questions in the benchmark's order, each once, and of them the first `selection.limit`.

    `selection.questions` is a list of ids and ranges of numeric ids, separated by commas. A range includes both ends;
    not every number in it must be an id. Or it is `@` and a file with one id or range per line: its path, or its name
    without ".txt" if it is in `conf/benchmarks`. Blank lines and lines that begin with `#` are skipped.
    """
    selected = tuple(questions)
    ids = selection.questions
    if ids is not None:
        named = _named(selected, _items(ids), ids)
        selected = tuple(question for question in selected if question.id in named)
    return selected[: selection.limit]


def _items(ids: str) -> list[str]:
    """Split `--questions`: ids and ranges separated by commas, or `@FILE`, perhaps a shipped one, with one per line."""
    if not ids.startswith("@"):
        parts: Iterable[str] = ids.split(",")
    else:
        path = Path(ids[1:]).expanduser()
        shipped = find_conf() / "benchmarks" / f"{ids[1:]}.txt"
        if not path.exists() and path.name == ids[1:] and shipped.exists():
            path = shipped
        try:
            parts = read_file(path).decode("utf-8-sig").splitlines()
        except OSError as error:
            raise ConfigurationError(f"--questions {ids}: {path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise ConfigurationError(f"--questions {ids}: {path} is not a text file in UTF-8.") from None
        parts = (line for line in parts if not line.lstrip().startswith("#"))
    return [part.strip() for part in parts if part.strip()]


def _named(questions: Sequence[Question], items: Sequence[str], ids: str) -> set[str]:
    """Return the ids that the items name; an item is an id or a range of numbers."""
    if not items:
        raise ConfigurationError(
            f'--questions {ids}: names no question. Write for example "--questions 0-9,42".'
        )
    existing = {question.id for question in questions}
    numbers = {int(identity): identity for identity in existing if identity.isascii() and identity.isdigit()}
    named: set[str] = set()
    unknown: list[str] = []
    for item in items:
        span = _RANGE.fullmatch(item)
        if item in existing:  # first, because an id may look like a range
            named.add(item)
        elif span and int(span[1]) > int(span[2]):
            raise ConfigurationError(
                f"--questions {ids}: the range {item} is reversed. Write {span[2]}-{span[1]}."
            )
        elif span and (hits := {name for n, name in numbers.items() if int(span[1]) <= n <= int(span[2])}):
            named |= hits
        else:
            unknown.append(item)
    if unknown:
        raise ConfigurationError(f"--questions {ids}: {_unknown(unknown, existing, numbers)}")
    return named


def _unknown(unknown: Sequence[str], existing: set[str], numbers: dict[int, str]) -> str:
    if len(numbers) == len(existing) > 0:
        valid = f"The ids are numbers from {min(numbers)} to {max(numbers)}."
    else:
        valid = did_you_mean(unknown[0], existing)
        if len(existing) > 20 and not valid.startswith("Did"):
            valid = f'The ids look like "{min(existing)}".'
    return f"no question has the id{'s' if len(unknown) > 1 else ''} {shorten(unknown, 10)}. {valid}"
