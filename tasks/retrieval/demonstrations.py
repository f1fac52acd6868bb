"""Few-shot demonstrations: the training questions most like a question (RSL-SQL, E), without leaks.

Values and schema words of a question are masked, so that questions of different databases can be compared: DAIL-SQL's
masked question similarity (Gao et al. 2023), which RSL-SQL uses on Spider. Deviations: words are matched with plurals
folded instead of by n-grams, and neighbouring masks become one.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tasks.benchmarks.benchmark import question_fingerprint, sql_fingerprint
from tasks.core.records import Demonstration, Question
from tasks.retrieval.encoder_files import VectorCache, find_encoder, quieten, unpacked, unusable
from tasks.settings.pipeline import DemonstrationSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sentence_transformers import SentenceTransformer


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


class Bm25Ranker:
    """Ranks a pool by BM25 (Lucene's variant, k1 1.5, b 0.75) on lower-cased words.

    Neither stop words nor endings are removed: "how many", "which", "highest" indicate the SQL.
    A query that shares no word with the pool gets the pool's first texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        documents = [_words(text) for text in texts]
        self._size = len(documents)
        self._index: bm25s.BM25 | None = None
        if any(documents):
            self._index = bm25s.BM25()
            self._index.index(documents, show_progress=False)

    def rank(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Return for each query the positions of the k most similar texts, the most similar first.

        Fewer than k where the pool is smaller. Ties are broken by the pool's order.
        """
        first = list(range(min(k, self._size)))
        searched = [_words(query) for query in queries]
        return [
            best(self._index.get_scores(words), k) if self._index and words else first for words in searched
        ]


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

    >>> sorted(schema_words(["raceId", "Free Meal Count (K-12)"]))
    ['count', 'free', 'id', 'meal', 'race', 'raceid']
    """
    words = set()
    for name in names:
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


Progress = Callable[[str], None]
BLOCK = 256
"""Queries compared with the pool at once: bounds the memory to 256 rows of scores."""
DECIMALS = 5
"""Scores are rounded to these: what is below is noise of the batch a text happened to be encoded in."""


class DemonstrationIndex:
    """The pool of demonstrations, searchable by question.

    Only the question's text is compared, as RSL-SQL v1 did: neither evidence nor SQL. With `settings.mask`,
    values and schema words are masked on both sides; values alone where a database's names are not known.
    """

    def __init__(
        self,
        pool: Sequence[Demonstration],
        settings: DemonstrationSettings,
        *,
        cache: Path | None = None,
        schema_names: Mapping[str, Collection[str]] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Index a pool, from which leaks are already removed (`without_leaks`).

        `cache` is the folder of embedded texts; None: nothing is kept. `schema_names`, by database id, are for masking.
        `progress` is called with a sentence about work that takes a while.
        """
        self._pool = tuple(pool)
        self._settings = settings
        self._names = schema_names or {}
        self._words: dict[str, frozenset[str]] = {}
        self._nearest: dict[tuple[str, str], tuple[Demonstration, ...]] = {}
        self._ranker = self._build(cache, progress) if settings.k and self._pool else None

    def nearest(self, question: Question) -> tuple[Demonstration, ...]:
        """Return the k most similar demonstrations, the most similar first, ties in the pool's order."""
        return self.nearest_all([question])[0]

    def nearest_all(self, questions: Iterable[Question]) -> tuple[tuple[Demonstration, ...], ...]:
        """Return the demonstrations of each of many questions, encoding the questions in batches.

        What is found is kept, so that `nearest` afterwards only looks it up.
        """
        questions = tuple(questions)
        new = list(
            dict.fromkeys(key for q in questions if (key := (q.text, q.database_id)) not in self._nearest)
        )
        if self._ranker is None:
            self._nearest.update((key, ()) for key in new)
        elif new:
            ranked = self._ranker.rank([self._seen(*key) for key in new], self._settings.k)
            for key, positions in zip(new, ranked, strict=True):
                self._nearest[key] = tuple(self._pool[position] for position in positions)
        return tuple(self._nearest[question.text, question.database_id] for question in questions)

    def _build(self, cache: Path | None, progress: Progress | None) -> "Bm25Ranker | EmbeddingRanker":
        texts = [self._seen(example.question, example.database_id) for example in self._pool]
        if self._settings.retriever == "bm25":
            return Bm25Ranker(texts)
        encoder, metric = self._settings.encoder, self._settings.metric
        return EmbeddingRanker(texts, encoder=encoder, metric=metric, cache=cache, progress=progress)

    def _seen(self, text: str, database_id: str) -> str:
        if not self._settings.mask:
            return text
        if database_id not in self._words:
            self._words[database_id] = schema_words(self._names.get(database_id, ()))
        return mask(text, self._words[database_id])


class EmbeddingRanker:
    """Ranks a pool by the distance of sentence embeddings, normalised to unit length.

    On unit vectors the two metrics order alike; they differ where an encoder yields a zero vector.
    The encoder is loaded only if some text's vector is not kept on disk.
    """

    def __init__(
        self,
        texts: Sequence[str],
        *,
        encoder: str,
        metric: Literal["euclidean", "cosine"] = "euclidean",
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Embed the pool, or read its vectors from `cache`."""
        self._source = find_encoder(encoder)
        self._metric = metric
        self._cache = VectorCache(cache, self._source.identity) if cache else None
        self._say = progress or (lambda message: None)
        self._model: SentenceTransformer | None = None
        self._unique = tuple(dict.fromkeys(texts))
        numbers = {text: number for number, text in enumerate(self._unique)}
        # equal texts share a vector, so their ties are exact
        self._vector_of = [numbers[text] for text in texts]
        self._vectors = self._embed(self._unique)

    def rank(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Return the positions of the k nearest texts per query; see `Bm25Ranker.rank`."""
        unique = tuple(dict.fromkeys(queries))
        vectors = self._embed(unique)
        nearest: dict[str, list[int]] = {}
        for start in range(0, len(unique), BLOCK):
            scores = self._scores(vectors[start : start + BLOCK])[:, self._vector_of]
            nearest.update((text, best(row, k)) for text, row in zip(unique[start:], scores, strict=False))
        return [nearest[query] for query in queries]

    def _scores(self, queries: "npt.NDArray[np.float32]") -> "npt.NDArray[np.float32]":
        """Return queries x texts, the higher the nearer: cosines, or squared distances with a minus sign."""
        scores: npt.NDArray[np.float32] = queries @ self._vectors.T
        if self._metric == "euclidean":
            # no square root: it keeps the order, but would blow up the noise around 0
            squares = (queries**2).sum(axis=1)[:, None] + (self._vectors**2).sum(axis=1)[None, :]
            scores = 2 * scores - squares
        return scores.round(DECIMALS)

    def _embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        import numpy as np

        stored = self._cache.load(texts) if self._cache else None
        if stored is not None:
            return stored
        model = self._model = self._model or self._load()
        if len(texts) > BLOCK:
            self._say(f"Encoding {len(texts):,} questions with {self._source.name}")
        vectors = np.asarray(
            model.encode(list(texts), batch_size=64, show_progress_bar=False, normalize_embeddings=True),
            np.float32,
        )
        if self._cache and len(texts) > 1:
            self._cache.store(texts, vectors)
        return vectors

    def _load(self) -> "SentenceTransformer":
        self._say(f"Loading the encoder {self._source.name}")
        quieten()
        try:
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as transformers_logging

            transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            for name in ("transformers", "sentence_transformers"):
                logging.getLogger(name).setLevel(logging.ERROR)
            # no revision: the hub's client would not note the download as the newest, nor find it again offline
            with unpacked(self._source) as location:
                return SentenceTransformer(location, local_files_only=self._source.on_disk)
        except Exception as error:  # each kind of damage to a model's files has an exception of its own
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise unusable(self._source.name, why) from error


CHECKED = "No demonstration comes from the evaluated questions"
"""Begins the sentence on a pool without leaks."""


@dataclass(frozen=True, slots=True)
class GuardedPool:
    """A pool of demonstrations without what would leak answers."""

    # what may be shown, in the order of the original pool
    pool: tuple[Demonstration, ...] = field(repr=False)
    by_question: int  # examples removed because the evaluated split asks their question
    by_sql: int  # further examples removed because their SQL is a gold SQL of the evaluated split

    @property
    def removed(self) -> int:
        """Number of examples that were removed."""
        return self.by_question + self.by_sql

    @property
    def sentence(self) -> str:
        """Sentence for the user about what was removed."""
        total = len(self.pool) + self.removed
        if not self.removed:
            return f"{CHECKED} ({total:,} checked)."
        return (
            f"{self.removed:,} of {total:,} demonstrations come from the evaluated questions and are not used: "
            f"{self.by_question:,} by their question, {self.by_sql:,} by their SQL alone."
        )


def without_leaks(
    pool: Iterable[Demonstration],
    evaluated_questions: Iterable[Question],
    evaluated_gold_fingerprints: Collection[str],
) -> GuardedPool:
    """Remove every example whose question or SQL is in the evaluated split, also of other databases.

    Case, white space, quotes and closing punctuation make no difference; see `tasks.benchmarks.benchmark`. The
    questions are those of the *whole* split, not only what is selected for a run: the demonstrations of a question must
    not depend on which others run with it. Of the gold, only fingerprints are known here.
    """
    evaluated_texts = {question_fingerprint(question.text) for question in evaluated_questions}
    gold = frozenset(evaluated_gold_fingerprints)
    kept: list[Demonstration] = []
    by_question = by_sql = 0
    for example in pool:
        if question_fingerprint(example.question) in evaluated_texts:
            by_question += 1
        elif sql_fingerprint(example.sql) in gold:
            by_sql += 1
        else:
            kept.append(example)
    return GuardedPool(tuple(kept), by_question, by_sql)
