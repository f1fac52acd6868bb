"""Splits a SQL into words as the official Spider evaluator does: by nltk's rules for English.

They split at brackets and most signs but not at `=`, nor at a comma before a digit: `age=3` and `1,2` are one word.
Deviations: contractions (`cannot`) and sentences stay whole.
"""

import re

_WORD = re.compile(
    r"""[][(){}<>;@#$%&?!*] | `+ | -- | \.{2,} | [,:](?!\d) | \.\Z
    | (?: [^][(){}<>;@#$%&?!*`.,:\s-] | [,:](?=\d) | -(?!-) | \.(?!\.|\Z) )+""",
    re.VERBOSE,
)
_TEXT = re.compile(r"__val_(\d+)__")


class UnreadableError(Exception):
    """The official evaluator's reading of a SQL stops here."""


def split(sql: str) -> list[str]:
    """Return the words in lower case, a quoted text in double quotes as one; raise if a quote is open.

    >>> split("SELECT T1.name, 'Ann  B' FROM Pet WHERE age > = 3 AND id=4")[1:]
    ['t1.name', ',', '"Ann  B"', 'from', 'pet', 'where', 'age', '>=', '3', 'and', 'id=4']
    """
    parts = sql.replace("'", '"').split('"')
    if len(parts) % 2 == 0:
        raise UnreadableError
    text = "".join(f"__val_{i}__" if i % 2 else part for i, part in enumerate(parts)).rstrip()
    words: list[str] = []
    for word in _WORD.findall(text):
        if word == "=" and words and words[-1] in ("!", ">", "<"):
            words[-1] += "="
        elif quoted := _TEXT.fullmatch(word):
            words.append(f'"{parts[int(quoted[1])]}"')
        else:
            words.append(word.lower())
    return words
