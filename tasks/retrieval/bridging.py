"""Decides whether a question mentions a database value: bridging (Lin et al. 2020; SEA-SQL, semantic-enhanced schema).

Value and question are compared in lower case. Their longest common run that starts where a word starts is widened
to the whole words of the question that it touches; the value is mentioned when it is like enough to these words.
Two readings are ours: the run starts at a word of the value too, not only of the question, and of several longest
runs the one that fits best counts, so that "york" is not lost on an earlier "Yorkshire".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil

from rapidfuzz.distance import Indel, Prefix

LIKENESS = 0.85
"""Likeness of value and words, in 0..1, from which the value counts as mentioned."""
OVERHANG = 3
"""Characters that the words may go on after the run."""
MIN_RUN = 2
"""A single common character is no evidence."""

COMMON = frozenset({"yes", "no", "true", "false", "none", "other", "unknown", "all"})
"""Values that are also common words: only an exact occurrence counts."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NOT_WORD_AT_ENDS = re.compile(r"^[\W_]+|[\W_]+$")
_NUMBER = re.compile(r"(?<![\d.,:/%+-])(?=[.,:/%+-]*+\d)[\d.,:/%+-]++")
_SKIPPED = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below between
    both but by can could did do does doing down during each either else every few first for from further give had
    has have having he her here hers him his how i id if in into is it its itself just last list many may me might
    more most much must my name no nor not now of off on once one only or other our ours out over own per please
    same shall she should show since so some such tell than that the their theirs them then there these they this
    those through to too under until up upon us use used using very was we were what when where whether which while
    who whom whose why will with within without would you your yours
    """.split()  # noqa: SIM905 - a list of 140 strings would be a page
)
_NEGATIONS = frozenset({"no", "nor", "not", "without"})


@dataclass(frozen=True, slots=True)
class Bridge:
    """A value found in a question."""

    score: float  # likeness of the value and the words it was found in, in 0..1
    length: int  # characters of their common run


@dataclass(frozen=True, slots=True)
class WordSpan:
    """Words in a row of a question."""

    text: str  # the words, in lower case
    # what a value that is found in just these words has in common with them at least, if it begins there
    beginning: str


class BridgedQuestion:
    """A question in lower case, prepared for many values."""

    def __init__(self, question: str) -> None:
        self.text = question.lower()
        self._words = [match.span() for match in _WORD.finditer(self.text)]
        self._end_of_word = {position: end for start, end in self._words for position in range(start, end)}
        self._starting_with: dict[str, list[int]] = {}
        for start, _ in self._words:
            self._starting_with.setdefault(self.text[start : start + MIN_RUN], []).append(start)

    def spans(self, max_characters: int) -> Iterator[WordSpan]:
        """Return the words in which a value of at most so many characters may be found, with and without a last 's.

        >>> [span.text for span in BridgedQuestion("Is Bob's car red?").spans(10)]
        ["is bob's", 'is bob', "is bob's car", "bob's", 'bob', "bob's car", "bob's car red", 'car', 'car red', 'red']
        """
        _, limit = like_lengths(max_characters)
        for number, (start, _) in enumerate(self._words):
            for last, end in self._words[number:]:
                if end - start - 2 > limit:  # too long even without a last 's
                    break
                bare = end - 2 if self.text[start:end].endswith(("'s", "’s")) else end
                for text in dict.fromkeys((self.text[start:end], self.text[start:bare])):
                    if len(text) >= MIN_RUN and not is_skipped(text):
                        # the common run reaches into the last word and leaves out little of it
                        run = max(MIN_RUN, len(text) - OVERHANG, last - start + 1)
                        yield WordSpan(text, text[:run])

    def bridge(self, value: str) -> Bridge | None:
        """Return how the question mentions a value, None when it does not.

        >>> round(BridgedQuestion("Who lives in Oxford streets?").bridge("Oxford Street").score, 2)
        0.96
        >>> BridgedQuestion("What is alice's age?").bridge("Alice")
        Bridge(score=1.0, length=5)
        >>> BridgedQuestion("Is Yorkshire near York?").bridge("york")
        Bridge(score=1.0, length=4)
        >>> BridgedQuestion("What about the rest?").bridge("About") is None
        True
        """
        core = comparable(value)
        best: Bridge | None = None
        needed = required_run(len(core))
        for inner in word_starts(core, len(core) - needed):
            beginning = core[inner : inner + needed]
            for start in self._starting_with.get(beginning[:MIN_RUN], ()):
                if not self.text.startswith(beginning, start):
                    continue
                bridge = self._at(core, inner, start)
                if bridge and (best is None or (bridge.length, bridge.score) > (best.length, best.score)):
                    best = bridge
        if best is None or best.score < required_score(value) or is_skipped(core):
            return None
        return best

    def _at(self, core: str, inner: int, start: int) -> Bridge | None:
        """Return the bridge from `core[inner:]`, the value from one of its words on, to the question at `start`.

        The run is the beginning that both have in common. The score compares the whole value with the span: the
        question's words that the run covers, the last of them up to its end. None: the run is too short, the span
        leaves more than `OVERHANG` characters uncovered, or `is_skipped` excludes the run or the span.
        """
        shared = Prefix.similarity(self.text[start : start + len(core)], core[inner:])
        run = _without_ends(core[inner : inner + shared])
        if len(run) < MIN_RUN:
            return None
        span = self.text[start : self._end_of_word[start + len(run) - 1]]
        if len(span) - len(run) > OVERHANG or is_skipped(run) or is_skipped(span):
            return None
        possessive = span in (core + "'s", core + "’s")
        return Bridge(1.0 if possessive else Indel.normalized_similarity(core, span), len(run))


def comparable(value: str) -> str:
    """Return a value as it is compared: in lower case, without punctuation around it."""
    return _without_ends(value.lower())


def word_starts(core: str, last: int) -> list[int]:
    """Return where the words of a comparable value start, up to position `last`.

    >>> word_starts("the o'neill arms", 12), word_starts("the o'neill arms", 4), word_starts("ab", -1)
    ([0, 4, 12], [0, 4], [])
    """
    return [match.start() for match in _WORD.finditer(core, 0, last + 1)]


@cache
def like_lengths(length: int) -> tuple[int, int]:
    """Return the least and greatest length of texts that can be similar to one of that length."""
    max_ratio = (2 - LIKENESS) / LIKENESS
    return ceil(length / max_ratio - 1e-9), int(length * max_ratio + 1e-9)


def required_run(length: int) -> int:
    """Return the least length of the common run if a value of that length is mentioned.

    The run leaves at most `OVERHANG` characters of the words uncovered, and words much shorter than the value
    are not like it.
    """
    return max(MIN_RUN, like_lengths(length)[0] - OVERHANG)


def required_score(value: str) -> float:
    """Return the required similarity of a value in any column: 1 for all capitals and very common words."""
    return 1.0 if value.isupper() or value.lower() in COMMON else LIKENESS


def column_requires(column: str) -> float:
    """Return the required similarity of the values of a column: 1 if the column's name contains "name"."""
    return 1.0 if "name" in column.lower() else LIKENESS


def without_stop_words(question: str) -> str:
    """Remove the stop words of a question, which occur in values of every kind.

    Negations stay ("No Colour", "not rated"), and words with a capital inside the question, which may be names.

    >>> without_stop_words("How many of the US heroes did The Who meet in May?")
    '    US heroes  The Who meet  May?'
    """

    def unless_stop_word(match: re.Match[str]) -> str:
        word = match[0]
        is_name = not word.islower() and match.start() > 0
        return word if is_name or word.lower() not in _SKIPPED - _NEGATIONS else ""

    return _WORD.sub(unless_stop_word, question)


def is_skipped(text: str) -> bool:
    """Return whether a lower-cased text mentions no value: a stop word, a number, "id", or nothing."""
    return not text or text in _SKIPPED or (not text[0].isalpha() and bool(_NUMBER.fullmatch(text)))


def _without_ends(text: str) -> str:
    if text and text[0].isalnum() and text[-1].isalnum():
        return text
    return _NOT_WORD_AT_ENDS.sub("", text)
