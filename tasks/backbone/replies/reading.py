"""Lenient parsing of replies into their types, with the reason where a reply is not what was asked for."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from tasks.backbone.replies.coercion import coerce, plain_key
from tasks.backbone.replies.json_text import (
    LONGEST,
    ParsedReply,
    Path,
    Value,
    fenced,
    read_json,
    readings,
    without_thoughts,
)
from tasks.backbone.replies.sql_text import last_sql, read_sql, sql_of_fence

__all__ = ["ParsedReply", "Reading", "read_answer", "read_fenced", "read_json", "read_reply", "read_sql"]

T = TypeVar("T", bound=BaseModel)

_NO_FENCE = "no fenced block"


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A reply read as its type.

    Attributes:
        value: the object; None when the reply could not be read as one.
        path: how it was read, see `ParsedReply`.
        reason: why the reply is not what was asked for, "" where it is.
    """

    value: T | None
    path: Path
    reason: str = ""


def read_reply(text: str, reply_type: type[T]) -> Reading[T]:
    """Parse a reply as an object of a type: the first JSON value in it that fits.

    Keys are matched without regard to case and punctuation; a text stands for a list of names or of one; a
    bare list stands for an object with one list field. A type whose only field is `sql` also takes plain SQL; one
    with a class method `from_text` is asked to read what is no such object.

    >>> class Tables(BaseModel):
    ...     tables: list[str]
    >>> read_reply('{"Tables": "a, b"}', Tables).value
    Tables(tables=['a', 'b'])
    >>> read_reply("I cannot tell.", Tables)
    Reading(value=None, path='failed', reason='no JSON object')
    """
    return (
        _fitting(readings(text), reply_type)
        or _as_query(read_sql(text), text, reply_type)
        or _from_text(text, reply_type)
        or _unreadable(text)
    )


def read_answer(text: str, reply_type: type[T], *, reasoning: str) -> Reading[T]:
    """Parse a reply whose object begins with a reasoning: as `read_reply`, but the reasoning is never the answer.

    An object that ends with its reasoning, as one that is cut off does, is unreadable; an answer behind such an object
    is read. Without an object, the last query of the text is taken for a type whose only field is `sql`. `reasoning` is
    the key of the reasoning, which the type does not have.
    """
    parsed = list(readings(text))
    answers = [replace(each, value=_without_key(each, reasoning)) for each in parsed]
    found = _fitting((each for each in answers if each.value), reply_type)
    if found is not None:
        return found
    alone = [
        before for before, after in zip(parsed, answers, strict=True) if before.value and not after.value
    ]
    if not alone:
        answer = without_thoughts(text)
        query = _as_query(last_sql(answer), answer, reply_type)
        return query or _from_text(text, reply_type) or _unreadable(text)
    rest = text.rpartition("}")[2].strip(" \n`")
    if rest and alone[0].path != "repaired":
        return replace(read_reply(rest, reply_type), reason="the answer is behind the object")
    return Reading(None, "failed", "reasoning without an answer")


def read_fenced(text: str, reply_type: type[T]) -> Reading[T]:
    """Parse a reply that ends in a fenced block: the last one that can be read as the type.

    A type whose only field is `sql` takes SQL, or an object, in the fence; any other type an object. Without such a
    fence, the last object in the text is taken, or the last query.
    """
    answer = without_thoughts(text)[-LONGEST:].strip()
    for language, content in reversed(fenced(answer)):
        found = _fitting(_objects(content), reply_type)
        if found is not None:
            broken = found.path == "repaired"
            return found if broken else replace(found, path="fenced")
        query = _as_query(sql_of_fence(language, content), answer, reply_type)
        if query is not None:
            return Reading(query.value, "fenced")
    found = _fitting(_last_first(readings(answer)), reply_type)
    if found is None:
        found = _as_query(last_sql(answer), answer, reply_type) or _from_text(answer, reply_type)
    return replace(found, reason=_NO_FENCE) if found else _unreadable(text, _NO_FENCE)


def _fitting(parsed: Iterable[ParsedReply], reply_type: type[T]) -> Reading[T] | None:
    """Return the first value that fits the type; None where none does."""
    for each in parsed:
        if each.value is None or _is_bracketed(each, reply_type):
            continue
        try:
            value = reply_type.model_validate(coerce(each.value, reply_type))
        except ValidationError:
            continue
        return Reading(value, each.path, "broken JSON, repaired" if each.path == "repaired" else "")
    return None


def _is_bracketed(parsed: ParsedReply, reply_type: type[T]) -> bool:
    """Whether a list of texts is what a query has in brackets: a quoted name, or a part of a string."""
    if not isinstance(parsed.value, list) or set(reply_type.model_fields) != {"sql"}:
        return False
    return parsed.path in ("text", "repaired") and not any(isinstance(part, dict) for part in parsed.value)


def _as_query(sql: str | None, text: str, reply_type: type[T]) -> Reading[T] | None:
    if sql is None or set(reply_type.model_fields) != {"sql"}:
        return None
    path: Path = "fenced" if fenced(text) else "text"
    return Reading(reply_type.model_validate({"sql": sql}), path, "SQL without JSON")


def _from_text(text: str, reply_type: type[T]) -> Reading[T] | None:
    from_text = getattr(reply_type, "from_text", None)
    value = from_text(text) if from_text else None
    return None if value is None else Reading(value, "repaired", "no object of the form asked for")


def _unreadable(text: str, reason: str = "") -> Reading[T]:
    if not text.strip():
        reason = "empty"
    elif not without_thoughts(text).strip():
        reason = "thoughts without an answer"
    elif not reason:
        reason = "no JSON object" if read_json(text).value is None else "JSON without what was asked for"
    return Reading(None, "failed", reason)


def _objects(content: str) -> Iterator[ParsedReply]:
    """Yield the objects of a fence; what is plainly SQL is not searched for any."""
    return readings(content) if re.match(r"\s*[\[{]", content) else iter(())


def _last_first(parsed: Iterable[ParsedReply]) -> list[ParsedReply]:
    """Return values in the opposite order of the text, those that had to be repaired behind all others."""
    backwards = list(parsed)[::-1]
    repaired = [each for each in backwards if each.path == "repaired"]
    return [each for each in backwards if each.path != "repaired"] + repaired


def _without_key(parsed: ParsedReply, key: str) -> Value | None:
    if not isinstance(parsed.value, dict):
        return parsed.value
    return {name: value for name, value in parsed.value.items() if plain_key(str(name)) != key}
