"""Few-shot demonstrations: the training questions most like a question (RSL-SQL, E), without leaks.

Values and schema words of a question are masked, so that questions of different databases can be compared: DAIL-SQL's
masked question similarity (Gao et al. 2023), which RSL-SQL uses on Spider. Deviations: words are matched with plurals
folded instead of by n-grams, and neighbouring masks become one.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tasks.core.records import Demonstration, Question
from tasks.retrieval.encoder_files import Encoder, Progress
from tasks.settings.pipeline import DemonstrationSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def best(scores: "npt.NDArray[np.floating[Any]]", k: int) -> list[int]:
    """Return the positions of the k highest scores, highest first, ties by position."""
    import numpy as np

    k = min(k, scores.size)
    if k <= 0:
        return []
    threshold = np.partition(scores, scores.size - k)[scores.size - k]
    candidates = np.flatnonzero(scores >= threshold)
    order = np.argsort(-scores[candidates], kind="stable")[:k]
    return [int(position) for position in candidates[order]]


_WORD = re.compile(r"\w+")


def nearest_by_words(texts: Sequence[str], queries: Sequence[str], k: int) -> list[list[int]]:
    """Return for each query the positions of the k most similar texts, the most similar first.

    By BM25 (Lucene's variant, k1 1.5, b 0.75) on lower-cased words. Neither stop words nor endings are removed: "how
    many", "which", "highest" indicate the SQL. Fewer than k where there are fewer texts; ties are broken by their
    order. A query that shares no word with the texts gets the first ones.
    """
    import bm25s

    documents = [_words(text) for text in texts]
    first_texts = list(range(min(k, len(documents))))
    if not any(documents):
        return [first_texts] * len(queries)
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    searched = (_words(query) for query in queries)
    return [best(index.get_scores(words), k) if words else first_texts for words in searched]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


SCHEMA_MASK = "<mask>"
"""Replaces words that name a table or column."""
VALUE_MASK = "<unk>"
"""Replaces quoted texts and numbers."""

_QUOTED = re.compile(
    r"""(?<!\w)(?:'[^'\n]{1,200}(?:'\w[^'\n]{0,200}){0,10}'|"[^"\n]+"|`[^`\n]+`|‘[^’\n]{1,200}+’|“[^”\n]{1,200}+”)(?!\w)"""
)
_NUMBER = re.compile(r"(?<![\w.])[-+$€£]?\d+(?:[.,:/-]\d+)*%?(?!\w)")
_SCHEMA_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?:_[^\W\d_]+)*(?!\w)")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
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

    Single characters and `FUNCTION_WORDS` are left out.

    >>> sorted(schema_words(["raceId", "Free Meal Count (K-12)"]))
    ['count', 'free', 'id', 'meal', 'race', 'raceid']
    """
    words = set()
    for name in names:
        # split at capitals and underscores ("race", "Id"), and with both kept ("raceId"); no part has digits or signs
        parts = re.findall(r"[^\W\d_]+", HUMP.sub(" ", name)) + re.findall(r"[^\W\d]+", name)
        words |= {fold(part) for part in parts}
    return frozenset(word for word in words if len(word) > 1 and word not in FUNCTION_WORDS)


def mask(question: str, words: Collection[str]) -> str:
    """Replace the values of a question by masks, and the words of its schema, as `schema_words` gives them.

    >>> mask("How many races in 2009 had the driver 'Lewis Hamilton'?", schema_words(["races", "drivers"]))
    'How many <mask> in <unk> had the <mask> <unk>?'
    """
    text = _NUMBER.sub(VALUE_MASK, _QUOTED.sub(VALUE_MASK, question))
    text = _SCHEMA_WORD.sub(lambda word: SCHEMA_MASK if fold(word[0]) in words else word[0], text)
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


BLOCK = 256
"""Queries compared with the pool at once: bounds the memory to 256 rows of scores."""
DECIMALS = 5
"""Scores are rounded to these: what is below is noise of the batch a text happened to be encoded in."""


def nearest_by_meaning(
    texts: Sequence[str],
    queries: Sequence[str],
    k: int,
    encoder: Encoder,
    metric: Literal["euclidean", "cosine"] = "euclidean",
) -> list[list[int]]:
    """Return for each query the positions of the k nearest texts, as `nearest_by_words` does.

    By the distance of sentence embeddings, normalised to unit length. On unit vectors the two metrics order alike; they
    differ where an encoder yields a zero vector.
    """
    unique = list(dict.fromkeys(texts))
    rows = {text: row for row, text in enumerate(unique)}
    # equal texts share a vector, so their ties are exact
    vector_of = [rows[text] for text in texts]
    pool, query_vectors = encoder.embed(unique), encoder.embed(queries)
    nearest = []
    for start in range(0, len(queries), BLOCK):
        scores = _scores(query_vectors[start : start + BLOCK], pool, metric)[:, vector_of]
        nearest += [best(row, k) for row in scores]
    return nearest


def _scores(
    queries: "npt.NDArray[np.float32]", texts: "npt.NDArray[np.float32]", metric: str
) -> "npt.NDArray[np.float32]":
    """Return queries x texts, the higher the nearer: cosines, or squared distances with a minus sign."""
    scores: npt.NDArray[np.float32] = queries @ texts.T
    if metric == "euclidean":
        # no square root: it keeps the order, but would blow up the noise around 0
        squares = (queries**2).sum(axis=1)[:, None] + (texts**2).sum(axis=1)[None, :]
        scores = 2 * scores - squares
    return scores.round(DECIMALS)


def nearest_demonstrations(
    pool: Sequence[Demonstration],
    questions: Sequence[Question],
    settings: DemonstrationSettings,
    *,
    cache: Path | None = None,
    schema_names: Mapping[str, Collection[str]] | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[Demonstration, ...], ...]:
    """Return the k demonstrations that are most like each question, the most similar first, ties in the pool's order.

    Leaks are already removed from the pool (`without_leaks`). Only the question's text is compared, as RSL-SQL v1 did:
    neither evidence nor SQL. With `settings.mask`, values and schema words are masked on both sides; values alone where
    a database's names are not in `schema_names`. Embedded texts are kept in the folder `cache`.
    """
    if not (settings.k and pool and questions):
        return ((),) * len(questions)
    words: dict[str, frozenset[str]] = {}

    def masked(text: str, database_id: str) -> str:
        if not settings.mask:
            return text
        if database_id not in words:
            words[database_id] = schema_words((schema_names or {}).get(database_id, ()))
        return mask(text, words[database_id])

    texts = [masked(example.question, example.database_id) for example in pool]
    queries = [masked(question.text, question.database_id) for question in questions]
    unique = list(dict.fromkeys(queries))
    if settings.retriever == "bm25":
        ranked = nearest_by_words(texts, unique, settings.k)
    else:
        encoder = Encoder(settings.encoder, cache, progress)
        ranked = nearest_by_meaning(texts, unique, settings.k, encoder, settings.metric)
    nearest = dict(zip(unique, ranked, strict=True))
    return tuple(tuple(pool[position] for position in nearest[query]) for query in queries)
