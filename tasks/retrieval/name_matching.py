"""Finds names of tables and columns in a question by the stems of their words (DAC, section 3.2)."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from tasks.retrieval.demonstrations import FUNCTION_WORDS

LONGEST = 8
"""Tokens in a row that one name or value may take."""

_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*\w*|\w+(?:['’]\w+)*|[^\w\s]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PIECE = re.compile(r"[^\W_]+")


def question_tokens(text: str) -> tuple[str, ...]:
    """Split a question into words, numbers and marks.

    >>> question_tokens("Which singer's first-name is 'Bob', in 1,990?")
    ('Which', "singer's", 'first', '-', 'name', 'is', "'", 'Bob', "'", ',', 'in', '1,990', '?')
    """
    return tuple(_TOKEN.findall(text))


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return the stem of an English word, in lower case, by the Snowball stemmer; "" for a mark.

    >>> stem("Airlines"), stem("city") == stem("cities"), stem("singer's"), stem("?")
    ('airlin', True, 'singer', '')
    """
    bare = re.sub(r"['’]s?$", "", word.lower())
    return str(_stemmer().stemWord(bare)) if _PIECE.search(bare) else ""


@lru_cache(maxsize=65536)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a table's or column's name in lower case.

    >>> name_words("raceId"), name_words("Free Meal Count (K-12)"), name_words("first_name")
    (('race', 'id'), ('free', 'meal', 'count', 'k', '12'), ('first', 'name'))
    """
    return tuple(word.lower() for word in _PIECE.findall(_HUMP.sub(" ", name)))


@dataclass(frozen=True, slots=True)
class QuestionWords:
    """The tokens of a question, ready to be searched for many names."""

    tokens: tuple[str, ...]  # as `question_tokens` gives them
    _by_stems: Mapping[tuple[str, ...], tuple[range, ...]]
    _by_text: Mapping[str, tuple[range, ...]]

    @classmethod
    def of(cls, tokens: tuple[str, ...]) -> "QuestionWords":
        """Index every run of up to `LONGEST` tokens that are not function words alone."""
        stems = [stem(token) for token in tokens]
        significant = [token.lower() not in FUNCTION_WORDS for token in tokens]
        by_stems, by_text = defaultdict(list), defaultdict(list)
        for length in range(1, min(LONGEST, len(tokens)) + 1):
            for start in range(len(tokens) - length + 1):
                span = range(start, start + length)
                if not any(significant[start : start + length]):
                    continue
                by_stems[tuple(stems[start : start + length])].append(span)
                by_text[_run_together(tokens[start : start + length])].append(span)
        return cls(
            tokens,
            {key: tuple(spans) for key, spans in by_stems.items()},
            {key: tuple(spans) for key, spans in by_text.items()},
        )

    def find_name(self, name: str, free: Collection[int]) -> range | None:
        """Return the first place where tokens in `free` are a whole name; None where there is none.

        Words are compared by their stems, or all run together (`airportname`, "airport name", and `airport_name` as
        BIRD's evidence spells it). A name that consists of function words alone ("to", "from") is never found.
        """
        words = name_words(name)
        if not words or all(word in FUNCTION_WORDS for word in words):
            return None
        stems = tuple(stem(word) for word in words)
        return _first((*self._by_stems.get(stems, ()), *self._by_text.get("".join(words), ())), free)

    def find_part(self, name: str, free: Collection[int]) -> range | None:
        """Return where tokens in `free` are most of a name's words in a row; None where none is."""
        words = [word for word in name_words(name) if len(word) > 1]
        for length in range(len(words), 0, -1):
            for start in range(len(words) - length + 1):
                found = self.find_name(" ".join(words[start : start + length]), free)
                if found is not None:
                    return found
        return None

    def find_text(self, text: str, free: Collection[int]) -> range | None:
        """Return where tokens in `free` are a text, case and blanks apart; None where there is none."""
        return _first(self._by_text.get(_run_together(question_tokens(text)), ()), free)


def _run_together(tokens: Iterable[str]) -> str:
    """Return tokens as one word, without the underscores of names that are spelled as in a schema."""
    return "".join(tokens).replace("_", "").lower()


def _first(spans: Iterable[range], free: Collection[int]) -> range | None:
    return next((span for span in spans if all(place in free for place in span)), None)


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("english")
