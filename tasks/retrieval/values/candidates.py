"""Finds, among millions of texts, the few that a question may mention, before bridging looks at each.

Two facts follow from what bridging asks for. The question holds the start of the text, or of one of its words, to a
length that follows from the text's own (`required_run`): these starts are kept as hashes, in order. And a short text
has few characters that the words of the question lack, and the other way round: of each short text the set of its
characters is kept. Both may let too much pass, never too little.
"""

import zlib
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.retrieval.values.bridging import (
    LIKENESS,
    SHORTEST_RUN,
    BridgedQuestion,
    comparable,
    required_run,
    word_starts,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LONGEST_RUN = 100
"""Longest start that is looked up; texts are shorter."""
SHORT = 14
"""Texts up to this length share their required start with too many others, so their characters are compared too."""
_BINS = 25
_ANY = 127
"""Length that is noted for a text that is not short."""


class RunWriter:
    """Collects the starts and character sets of texts that come with the numbers 1, 2, 3, ..."""

    def __init__(self) -> None:
        self._starts = array("Q")
        self._characters = array("I", [0])

    def add(self, value: str) -> None:
        """Add the next text."""
        core = comparable(value)
        number = len(self._characters)
        length = len(core)
        self._characters.append(_ANY << _BINS if length > SHORT else length << _BINS | _bins(core))
        if core:
            run = required_run(length)
            for start in word_starts(core, length - run):
                key = zlib.crc32(core[start : start + run].encode("utf-8", "surrogatepass"))
                self._starts.append(key << 32 | number)

    def finished(self) -> "tuple[array[int], array[int]]":
        """Return starts (key and number of the text in 8 bytes each, in their order) and characters (4 bytes each)."""
        import numpy as np

        np.frombuffer(self._starts, np.uint64).sort()
        return self._starts, self._characters


class RunIndex:
    """What a `RunWriter` collected, ready to be asked."""

    def __init__(self, starts: bytes, characters: bytes) -> None:
        import numpy as np

        self._starts = np.frombuffer(starts, np.uint64)
        self._characters = np.frombuffer(characters, np.uint32)

    def find(self, question: BridgedQuestion) -> list[int]:
        """Return the numbers of the texts that the question may mention; every one that it mentions is among them."""
        import numpy as np

        found = [np.empty(0, np.uint32)]
        for start in question.starts:
            numbers = self._starting_at(question, start)
            if numbers.size:
                found.append(numbers[self._alike(question, start, numbers)])
        every: list[int] = np.unique(np.concatenate(found)).tolist()
        return every

    def _starting_at(self, question: BridgedQuestion, start: int) -> "npt.NDArray[np.uint32]":
        import numpy as np

        keys = np.fromiter(_keys(question.text[start : start + LONGEST_RUN]), np.uint64) << np.uint64(32)
        first = np.searchsorted(self._starts, keys, "left").tolist()
        last = np.searchsorted(self._starts, keys | np.uint64(0xFFFFFFFF), "right").tolist()
        hits = [self._starts[a:b] for a, b in zip(first, last, strict=True) if a < b]
        return np.concatenate(hits).astype(np.uint32) if hits else np.empty(0, np.uint32)

    def _alike(
        self, question: BridgedQuestion, start: int, numbers: "npt.NDArray[np.uint32]"
    ) -> "npt.NDArray[np.bool_]":
        """Return which texts have, for some end of a word, about the characters of the words from `start` on."""
        import numpy as np

        characters = self._characters[numbers]
        lengths, bins = characters >> _BINS, characters & ((1 << _BINS) - 1)
        alike: npt.NDArray[np.bool_] = lengths == _ANY
        for end in question.ends_after(start):
            span = question.text[start:end]
            if len(span) * LIKENESS / (2 - LIKENESS) > SHORT:
                break
            own = np.uint32(_bins(span))
            common = np.ceil((lengths + len(span)) * (LIKENESS / 2) - 1e-9)
            alike |= (np.bitwise_count(bins & ~own) + common <= lengths) & (
                np.bitwise_count(own & ~bins) + common <= len(span)
            )
        return alike


def _bins(text: str) -> int:
    bins = 0
    for character in text:
        bins |= 1 << (ord(character) % _BINS)
    return bins


def _keys(text: str) -> Iterator[int]:
    key = 0
    for length, character in enumerate(text, start=1):
        key = zlib.crc32(character.encode("utf-8", "surrogatepass"), key)
        if length >= SHORTEST_RUN:
            yield key
