"""Values that a question names: quoted text, numbers, capitalised names, sample values."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.backbone.offline.prompt.english import STOP
from tasks.backbone.offline.question.text import QuestionText
from tasks.core.records import ColumnName

_LONGEST = 6  # words of a sample value


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a question names, from the token `start` up to `end`."""

    start: int
    end: int
    text: str  # the value, spelled as the samples spell it where they have it
    is_number: bool = False  # whether it was written as a number
    columns: tuple[ColumnName, ...] = ()  # columns whose samples hold it
    exact: bool = True  # False for a value that is only guessed from its capital letters


def find_values(text: QuestionText) -> tuple[Value, ...]:
    """Return the values of a question by position; none overlaps another."""
    samples: dict[str, tuple[str, list[ColumnName]]] = {}
    for column in text.schema.columns:
        for sample in dict.fromkeys(column.samples) if column.kind != "number" else ():
            samples.setdefault(sample.strip().lower(), (sample, []))[1].append(column.name)
    found: list[Value] = []
    taken: set[int] = set()
    for source in (_written(text), _sampled(text, frozenset(samples)), _capitalised(text, taken)):
        for value in source:
            if taken.isdisjoint(range(value.start, value.end)):
                taken.update(range(value.start, value.end))
                known = samples.get(value.text.lower()) if not value.is_number and value.exact else None
                if known and not value.columns:
                    value = Value(value.start, value.end, known[0], columns=tuple(dict.fromkeys(known[1])))
                found.append(value)
    return tuple(sorted(found, key=lambda value: value.start))


def _written(text: QuestionText) -> Iterator[Value]:
    """Yield quoted texts that are no names of columns, and numbers."""
    for index, token in enumerate(text.tokens):
        if token.kind == "number":
            yield Value(index, index + 1, token.text, is_number=True)
        elif token.kind == "quoted" and not text.schema.find(token.text.replace(" ", "_")):
            yield Value(index, index + 1, token.text)


def _sampled(text: QuestionText, samples: frozenset[str]) -> Iterator[Value]:
    """Yield the runs of words that are sample values, the longest first."""
    for size in range(_LONGEST, 0, -1):
        for start in range(len(text.tokens) - size + 1):
            words = " ".join(token.text for token in text.tokens[start : start + size])
            single = size == 1 and not ((len(words) > 2 or words[0].isupper()) and _may_be_value(text, start))
            if words.lower() in samples and not words.isdigit() and not single:
                yield Value(start, start + size, words)


def _may_be_value(text: QuestionText, index: int) -> bool:
    """Whether a single word may be a value: no stop word, and in lower case no participle and no word of a name."""
    token = text.tokens[index]
    if token.kind != "word" or token.lower in STOP or index == 0:
        return False
    if token.text.islower():
        return not token.lower.endswith("ed") and not text.names_schema(index)
    return not text.names_schema(index) or not _starts_sentence(text, index)


def _starts_sentence(text: QuestionText, index: int) -> bool:
    return index == 0 or text.tokens[index - 1].text in (".", "?", "!", ";", ":")


def _capitalised(text: QuestionText, taken: set[int]) -> Iterator[Value]:
    """Yield runs of capitalised words inside a sentence that name nothing of the schema."""
    index = 0
    while index < len(text.tokens):
        end = index
        if not text.names_schema(index):
            while _is_name(text, end, taken):
                end += 1
        if end > index:
            yield Value(index, end, " ".join(token.text for token in text.tokens[index:end]), exact=False)
        index = max(end, index + 1)


def _is_name(text: QuestionText, index: int, taken: set[int]) -> bool:
    """Whether a token looks like a part of a proper name or a code."""
    token = text.tokens[index] if index < len(text.tokens) else None
    if token is None or token.kind != "word" or index in taken or token.lower in STOP:
        return False
    code = re.search(r"\d", token.text) and re.search(r"[A-Za-z]", token.text)
    return bool(code) or (token.text[0].isupper() and not _starts_sentence(text, index))
