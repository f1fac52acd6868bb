"""Values that a question names: quoted text, numbers, capitalised names, sample values."""

import re
from dataclasses import dataclass, replace

from tasks.backbone.offline.lexicon import STOP
from tasks.backbone.offline.text import QuestionText
from tasks.records import ColumnName

_NAME_GLUE = frozenset({"of", "de", "the", "del", "la", "van", "von", "da", "&"})
_GENDERS = {"female": "F", "females": "F", "women": "F", "woman": "F", "girls": "F", "girl": "F",
            "male": "M", "males": "M", "men": "M", "man": "M", "boys": "M", "boy": "M"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a question names.

    Attributes:
        start: index of its first token.
        end: index after its last token.
        text: the value, spelled as the samples spell it where they have it.
        is_number: whether it was written as a number.
        columns: columns whose samples hold it.
        exact: False for a value that is only guessed from its capital letters.
    """

    start: int
    end: int
    text: str
    is_number: bool = False
    columns: tuple[ColumnName, ...] = ()
    exact: bool = True


def find_values(text: QuestionText) -> tuple[Value, ...]:
    """Return the values of a question by position; none overlaps another."""
    samples = _samples(text)
    found: list[Value] = []
    taken: set[int] = set()

    def add(value: Value) -> None:
        span = range(value.start, value.end)
        if not taken & set(span):
            taken.update(span)
            found.append(value)

    for index, token in enumerate(text.tokens):
        if (
            token.kind == "quoted"
            and not text.schema.find(token.text.replace(" ", "_"))
            and not text.schema.find(token.text)
        ):
            columns = samples.get(token.lower, ())
            add(_spelled(Value(index, index + 1, token.text, columns=columns), text))
        elif token.kind == "number":
            add(Value(index, index + 1, token.text, is_number=True))
    for size in range(6, 0, -1):
        for start in range(len(text.tokens) - size + 1):
            span = text.tokens[start : start + size]
            if any(t.kind in ("quoted", "mark") for t in span) or (
                size == 1 and not _may_be_value(text, start)
            ):
                continue
            words = " ".join(t.text for t in span)
            columns = samples.get(words.lower(), ())
            if columns and not words.isdigit() and (size > 1 or len(words) > 2 or words[0].isupper()):
                add(_spelled(Value(start, start + size, words, columns=columns), text))
    for value in _genders(text):
        add(value)
    for value in _capitalised(text, taken):
        add(value)
    return tuple(sorted(found, key=lambda value: value.start))


def _samples(text: QuestionText) -> dict[str, tuple[ColumnName, ...]]:
    """Map sample values in lower case to the columns that hold them."""
    found: dict[str, list[ColumnName]] = {}
    for column in text.schema.columns:
        if column.kind != "number":
            for sample in dict.fromkeys(column.samples):
                found.setdefault(sample.strip().lower(), []).append(column.name)
    return {sample: tuple(dict.fromkeys(names)) for sample, names in found.items() if sample}


def _spelled(value: Value, text: QuestionText) -> Value:
    """Take over the samples' spelling, if a sample equals the value but for its case."""
    if value.columns:
        for sample in text.schema.column(value.columns[0]).samples:
            if sample.strip().lower() == value.text.lower():
                return replace(value, text=sample)
    return value


def _may_be_value(text: QuestionText, index: int) -> bool:
    """Whether a single word may be a value: no stop word and no word of a full mention."""
    token = text.tokens[index]
    if token.kind != "word" or token.lower in STOP or (index == 0):
        return False
    if token.lower.endswith("ed") and token.text.islower():
        return False
    named = text.names_schema(index)
    return not named or (token.text[0].isupper() and not _sentence_start(text, index))


def _sentence_start(text: QuestionText, index: int) -> bool:
    return index == 0 or (text.tokens[index - 1].kind == "mark" and text.tokens[index - 1].text in ".?!;:")


def _genders(text: QuestionText) -> list[Value]:
    """Return the words for a gender, where the schema has a column for it."""
    columns = [c for c in text.schema.columns if {"sex", "gender"} & set(c.stems)]
    found = []
    for index, token in enumerate(text.tokens):
        letter = _GENDERS.get(token.lower)
        if letter is None or not columns:
            continue
        column = columns[0]
        matching = [s for s in column.samples if s[:1].upper() == letter]
        lengths = [len(s) for s in column.samples]
        spelled = matching[0] if matching else letter if not lengths or max(lengths) == 1 else _spell(letter)
        found.append(Value(index, index + 1, spelled, columns=tuple(c.name for c in columns)))
    return found


def _spell(letter: str) -> str:
    return "Female" if letter == "F" else "Male"


def _capitalised(text: QuestionText, taken: set[int]) -> list[Value]:
    """Return runs of capitalised words inside a sentence that name nothing of the schema."""
    found = []
    index = 0
    while index < len(text.tokens):
        if not _is_name(text, index, taken):
            index += 1
            continue
        end = index + 1
        while end < len(text.tokens):
            if (
                _is_name(text, end, taken, inside=True)
                or (
                    text.tokens[end].lower in _NAME_GLUE
                    and end + 1 < len(text.tokens)
                    and _is_name(text, end + 1, taken)
                )
                or (text.tokens[end].kind == "number" and len(text.tokens[end].text) < 3 and end not in taken)
            ):
                end += 1
            else:
                break
        words = " ".join(token.text for token in text.tokens[index:end])
        found.append(Value(index, end, words, exact=False))
        index = end
    return found


def _is_name(text: QuestionText, index: int, taken: set[int], *, inside: bool = False) -> bool:
    """Whether a token looks like (a part of) a proper name."""
    token = text.tokens[index]
    if token.kind != "word" or index in taken:
        return False
    digits = bool(re.search(r"\d", token.text)) and bool(re.search(r"[A-Za-z]", token.text))
    if (
        not (token.text[0].isupper() or digits)
        or token.lower in STOP
        or (_sentence_start(text, index) and not digits)
    ):
        return False
    if inside:
        return True
    return not text.names_schema(index)
