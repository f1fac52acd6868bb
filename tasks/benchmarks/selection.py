"""Which questions of a benchmark to run: `--questions 717-845,900`, `--questions @ids.txt`, `--limit 20`."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tasks.core.errors import ConfigurationError, did_you_mean, similar_name
from tasks.core.files import read_file
from tasks.core.records import Question
from tasks.core.wording import shorten
from tasks.settings.choices import QuestionSelection
from tasks.settings.home import find_conf

_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")


def select(questions: Sequence[Question], selection: QuestionSelection) -> tuple[Question, ...]:
    """Return the first `selection.limit` of the selected questions, in the benchmark's order.

    `selection.questions` is a list of ids and ranges of numeric ids, separated by commas; None selects all questions.
    A range includes both ends; not every number in it must be an id. `@FILE` names a file with one id or range per
    line, by its path, or by its name without ".txt" if it is in `conf/benchmarks`. Blank lines and lines that begin
    with `#` are skipped.
    """
    selected = tuple(questions)
    text = selection.questions
    if text is not None:
        selected_ids = _selected_ids(selected, _items(text), text)
        selected = tuple(question for question in selected if question.id in selected_ids)
    return selected[: selection.limit]


def _items(text: str) -> list[str]:
    """Return the ids and ranges of `--questions`: separated by commas, or the lines of `@FILE`."""
    if not text.startswith("@"):
        parts: Iterable[str] = text.split(",")
    else:
        name = text[1:]
        path = Path(name).expanduser()
        shipped = find_conf() / "benchmarks" / f"{name}.txt"
        if path.name == name and shipped.exists() and not path.exists():  # a name without a folder
            path = shipped
        try:
            lines = read_file(path).decode("utf-8-sig").splitlines()
        except OSError as error:
            raise ConfigurationError(
                f"--questions {text}: {path} cannot be read: {error.strerror}."
            ) from None
        except UnicodeDecodeError:
            raise ConfigurationError(f"--questions {text}: {path} is not a text file in UTF-8.") from None
        parts = (line for line in lines if not line.lstrip().startswith("#"))
    return [part.strip() for part in parts if part.strip()]


def _selected_ids(questions: Sequence[Question], items: Sequence[str], text: str) -> set[str]:
    """Return the ids that the items name; an item is an id or a range of numbers."""
    if not items:
        raise ConfigurationError(
            f'--questions {text}: names no question. Write for example "--questions 0-9,42".'
        )
    existing = {question.id for question in questions}
    numbers = {int(identity): identity for identity in existing if identity.isascii() and identity.isdigit()}
    selected: set[str] = set()
    unknown: list[str] = []
    for item in items:
        number_range = _RANGE.fullmatch(item)
        matching = {item} & existing  # looked at first, because an id may look like a range
        if not matching and number_range:
            first, last = int(number_range[1]), int(number_range[2])
            if first > last:
                raise ConfigurationError(
                    f"--questions {text}: the range {item} is reversed. Write {number_range[2]}-{number_range[1]}."
                )
            matching = {identity for number, identity in numbers.items() if first <= number <= last}
        selected |= matching
        if not matching:
            unknown.append(item)
    if unknown:
        raise ConfigurationError(f"--questions {text}: {_unknown(unknown, existing, numbers)}")
    return selected


def _unknown(unknown: Sequence[str], existing: set[str], numbers: dict[int, str]) -> str:
    if len(numbers) == len(existing) > 0:
        valid = f"The ids are numbers from {min(numbers)} to {max(numbers)}."
    elif len(existing) > 20:
        valid = similar_name(unknown[0], existing) or f'The ids look like "{min(existing)}".'
    else:
        valid = did_you_mean(unknown[0], existing)
    return f"no question has the id{'s' if len(unknown) > 1 else ''} {shorten(unknown, 10)}. {valid}"
