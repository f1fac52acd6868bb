"""Finding names in SQL and prose; `tasks.database.identifiers` quotes them."""

import re
from functools import lru_cache


def mentions_word(text: str, name: str) -> bool:
    """Whether a name occurs in a text between identifier boundaries, compared without case.

    A letter, digit or underscore directly before or after is no boundary.

    >>> mentions_word("SELECT id FROM t", "ID"), mentions_word("provide", "id")
    (True, False)
    """
    return bool(name) and _word(name.lower()).search(text.lower()) is not None


def mentions_substring(text: str, name: str) -> bool:
    """Whether a name occurs anywhere in a text, compared without case.

    >>> mentions_substring("provide", "ID")
    True
    """
    return bool(name) and name.lower() in text.lower()


@lru_cache(maxsize=8192)
def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
