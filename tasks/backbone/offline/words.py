"""Words of questions and of identifiers: tokens, light stems, likeness."""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from tasks.backbone.offline.lexicon import (
    ABBREVIATIONS,
    ALIKE,
    COMMON_PARTS,
    IRREGULAR,
    MONTHS,
    NUMBER_WORDS,
    UNITS,
)

TokenKind = Literal["word", "number", "quoted", "mark"]

_TOKEN = re.compile(
    r"""
    "(?P<double>[^"\n]*)"
  | “(?P<curly>[^”\n]*)”
  | ‘(?P<curly1>[^’\n]*)’
  | `(?P<tick>[^`\n]*)`
  | (?<![^\W_])'(?P<single>[^'\n]*(?:'[^\W\d_][^'\n]*)?)'(?![^\W_])
  | (?P<date>\d{4}[-/]\d{1,2}[-/]\d{1,2}(?:[ T]\d{1,2}:\d{2}(?::\d{2})?)?|\d{1,2}/\d{1,2}/\d{2,4})
  | (?P<spelled>(?:\d{1,2}(?:st|nd|rd|th)?\ (?:of\ )?(?:MONTH)\.?,?\ \d{4}|(?:MONTH)\ \d{1,2}(?:st|nd|rd|th)?,?\ \d{4}
      |(?:MONTH)\ (?:of\ )?\d{4})\b)
  | (?P<number>-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w])|-?\d+(?:\.\d+)?(?![^\W_]|[-/]\w))
  | (?P<owner>['’]s\b|(?<=s)['’](?=\s))
  | (?P<word>[^\W_](?:[\w]|[-./&'’@](?=[^\W_]))*)
  | (?P<mark>[,.;:?!()%$])
    """.replace("MONTH", "|".join(MONTHS)),
    re.VERBOSE,
)
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a question.

    Attributes:
        text: as written; for a quoted token what stands between the quotes, for a number its digits.
        lower: lower case of `text`.
        stem: light stem of `text`; "" for everything but words.
        kind: a date is "quoted", because SQLite keeps dates as text; number words up to twelve are "number".
    """

    text: str
    lower: str
    stem: str
    kind: TokenKind


def tokenize(text: str) -> tuple[Token, ...]:
    """Split a question into tokens; text past 4,000 characters is not looked at."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text[:4000]):
        group = match.lastgroup or "mark"
        found = match.group(group)
        if group in ("double", "curly", "curly1", "tick", "single", "date"):
            if found.strip(" .,"):
                tokens.append(Token(found.strip(" .,"), found.strip(" .,").lower(), "", "quoted"))
        elif group == "spelled":
            date = _iso(found)
            tokens.append(Token(date, date, "", "quoted"))
        elif group == "number":
            digits = found.replace(",", "")
            tokens.append(Token(digits, digits, "", "number"))
        elif group == "owner":
            tokens.append(Token("'s", "'s", "", "mark"))
        elif group == "mark":
            tokens.append(Token(found, found, "", "mark"))
        else:
            word = re.sub(r"(['’]s|['’])$", "", found)
            lower = word.lower()
            if lower.endswith(("n't", "n’t")):
                tokens.append(Token(word[:-3], lower[:-3], stem(lower[:-3]), "word"))
                tokens.append(Token("not", "not", "not", "word"))
                continue
            if lower in NUMBER_WORDS:
                tokens.append(Token(NUMBER_WORDS[lower], lower, "", "number"))
            else:
                tokens.append(Token(word, lower, stem(lower), "word"))
                if word != found:
                    tokens.append(Token("'s", "'s", "", "mark"))
    return tuple(tokens)


def _iso(date: str) -> str:
    """Return a date with its month spelled out in ISO form: "24 December 2023" is 2023-12-24, "May 2019" 2019-05.

    >>> _iso("March 3rd, 1999")
    '1999-03-03'
    """
    month = next(number for number, name in enumerate(MONTHS, 1) if name in date)
    *day, year = re.findall(r"\d+", date)
    return f"{year}-{month:02}" + (f"-{int(day[0]):02}" if day else "")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return a light stem: plural, -ed, -ing and a final e are cut, y becomes i.

    >>> stem("countries") == stem("country"), stem("produced") == stem("produces")
    (True, True)
    """
    word = word.lower().replace("e-mail", "email")
    word = IRREGULAR.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "xes", "ches", "shes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
        word = word[:-1]
    for ending, shortest in (("ing", 6), ("ed", 5)):
        if word.endswith(ending) and len(word) >= shortest:
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    if word.endswith("ie") or (word.endswith("e") and len(word) > 3):
        word = word[:-1]
    elif word.endswith("y") and len(word) > 2:
        word = word[:-1] + "i"
    return word


@lru_cache(maxsize=65536)
def split_identifier(name: str) -> tuple[str, ...]:
    """Split a table's or column's name into lower-case words; known abbreviations are written out.

    >>> split_identifier("SongReleaseYear"), split_identifier("emp_fname"), split_identifier("clubname")
    (('song', 'release', 'year'), ('employee', 'first', 'name'), ('club', 'name'))
    """
    words: list[str] = []
    name = re.sub(r"(?i)\be[-_ ]?mail", "email", name)
    whole = [
        [chunk] if chunk.lower() in ABBREVIATIONS or chunk.lower() in UNITS else _CAMEL.findall(chunk)
        for chunk in re.split(r"[\W_]+", name)
    ]
    for part in (part for parts in whole for part in parts):
        lower = part.lower()
        if lower in ABBREVIATIONS:
            words.extend(ABBREVIATIONS[lower])
            continue
        if len(lower) == 5 and lower.endswith("name"):  # sname, cname: the initial is the table's
            words.append("name")
            continue
        for ending in COMMON_PARTS:
            if lower.endswith(ending) and len(lower) - len(ending) >= 3:
                head = lower[: -len(ending)]
                words.extend(ABBREVIATIONS.get(head, (head,)))
                words.append(ending)
                break
        else:
            words.append(lower)
    if (
        len(words) > 1
        and len(words[0]) == 1
        and words[0].isalpha()
        and len(words[1]) > 1
        and words[1].isalpha()
    ):
        words = words[1:]  # an initial, as in GName
    return tuple(words)


@lru_cache(maxsize=65536)
def stems_of(name: str) -> tuple[str, ...]:
    """Return the stems of an identifier's words."""
    return tuple(stem(word) for word in split_identifier(name))


@lru_cache(maxsize=262144)
def likeness(asked: str, named: str) -> float:
    """Return how alike a question's stem and an identifier's stem are, in 0..1."""
    if asked == named:
        return 1.0
    if len(asked) < 3 or len(named) < 3:
        return 0.0
    if named in _synonyms().get(asked, ()):
        return 0.8
    short, long = sorted((asked, named), key=len)
    if len(short) >= 4 and long.startswith(short) and len(long) - len(short) <= 5:
        return 0.75
    if len(short) >= 5 and asked[:5] == named[:5] and len(long) <= 10:
        return 0.6
    if (
        len(named) < len(asked)
        and named[0] == asked[0]
        and not re.search("[aeiou]", named[1:])
        and _within(named, asked)
    ):
        return 0.6
    return 0.0


def _within(short: str, long: str) -> bool:
    """Whether the letters of `short` occur in `long` in their order."""
    letters = iter(long)
    return all(letter in letters for letter in short)


@cache
def _synonyms() -> dict[str, frozenset[str]]:
    """Map each stem to the stems it may stand for."""
    found: dict[str, set[str]] = {}
    for line in ALIKE:
        stems = [stem(word) for word in line.split()]
        for one in stems:
            found.setdefault(one, set()).update(stems)
    return {one: frozenset(others) for one, others in found.items()}
