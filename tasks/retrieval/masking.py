"""Masks values and schema words of a question, so that retrieval compares questions of different databases.

The idea is DAIL-SQL's masked question similarity (Gao et al. 2023), which RSL-SQL uses on Spider. Deviations:
words are matched with plurals folded instead of by n-grams, and neighbouring masks become one.
"""

import re
from collections.abc import Collection, Iterable

SCHEMA_MASK = "<mask>"
"""Replaces words that name a table or column."""
VALUE_MASK = "<unk>"
"""Replaces quoted texts and numbers."""

_QUOTED = re.compile(
    r"""(?<!\w)(?:'[^'\n]{1,200}(?:'\w[^'\n]{0,200}){0,10}'|"[^"\n]+"|`[^`\n]+`|‘[^’\n]{1,200}+’|“[^”\n]{1,200}+”)(?!\w)"""
)
_NUMBER = re.compile(r"(?<![\w.])[-+$€£]?\d+(?:[.,:/-]\d+)*%?(?!\w)")
_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?:_[^\W\d_]+)*(?!\w)")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_REPEATED = re.compile(rf"({re.escape(SCHEMA_MASK)}|{re.escape(VALUE_MASK)})(?:\s+\1)+")

FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a all am an and any are as at be by can did do does each for from had has have how i if in into is
        it its me more most no not of off on one only or other our out per so than that the their them then
        there these they this to us was we were what when where which who whose why will with you your""",
    )
)
"""Words that ask instead of naming; never masked, although columns have them in their names."""


def schema_words(names: Iterable[str]) -> frozenset[str]:
    """Return the words of table and column names, folded as `mask` compares them.

    >>> sorted(schema_words(["raceId", "Free Meal Count (K-12)"]))
    ['count', 'free', 'id', 'meal', 'race', 'raceid']
    """
    words = set()
    for name in names:
        parts = re.findall(r"[^\W\d_]+", _HUMP.sub(" ", name)) + re.findall(r"[^\W\d]+", name)
        words |= {fold(part) for part in parts}
    return frozenset(word for word in words if len(word) > 1 and word not in FUNCTION_WORDS)


def mask(question: str, words: Collection[str] = ()) -> str:
    """Replace the values of a question by masks, and the words of its schema, as `schema_words` gives them.

    Where the schema is not known, values alone are masked.

    >>> mask("How many races in 2009 had the driver 'Lewis Hamilton'?", schema_words(["races", "drivers"]))
    'How many <mask> in <unk> had the <mask> <unk>?'
    """
    text = _NUMBER.sub(VALUE_MASK, _QUOTED.sub(VALUE_MASK, question))
    text = _WORD.sub(lambda found: SCHEMA_MASK if fold(found[0]) in words else found[0], text)
    return _REPEATED.sub(r"\1", text)


def fold(word: str) -> str:
    """Return a word in lower case and, if it looks like an English plural, in the singular.

    >>> [fold(word) for word in ("Cities", "races", "class", "boxes")]
    ['city', 'race', 'class', 'box']
    """
    word = word.lower()
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
