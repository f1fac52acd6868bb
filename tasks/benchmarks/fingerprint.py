"""Fingerprints of questions and SQL: equal ones mean the same text, and none gives its text away.

They let the leak guard recognise gold SQL without ever seeing it.
"""

import hashlib
import re
import unicodedata

_QUOTES = re.compile("[\"'`´‘’‚“”„«»\\[\\]]")
_SPACE = re.compile(r"\s+")


def sql_fingerprint(sql: str) -> str:
    r"""Return the sha256 of a SQL without case, white space, quotes and trailing semicolons.

    Deliberately coarse: two queries that differ only in these are one, even where the difference has a
    meaning (`'A'` and `'a'`), because a demonstration too few is harmless and a leak is not.

    >>> sql_fingerprint('SELECT "a"\n FROM t ;') == sql_fingerprint("select `A` from T")
    True
    """
    return _digest(_bare(sql).rstrip(";"))


def question_fingerprint(question: str) -> str:
    """Return the sha256 of a question without case, white space, quotes and closing punctuation.

    >>> question_fingerprint("How many  singers ?") == question_fingerprint("how many singers")
    True
    """
    return _digest(_bare(question).rstrip(".?!;:,"))


def _bare(text: str) -> str:
    folded = unicodedata.normalize("NFKC", _QUOTES.sub("", text)).casefold()  # NFKC splits ´ into two signs
    return _SPACE.sub("", _QUOTES.sub("", folded))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
