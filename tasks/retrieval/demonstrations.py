"""Few-shot demonstrations: the training questions most like a question (RSL-SQL, E)."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tasks.core.records import Demonstration, Question
from tasks.retrieval.encoder_files import VectorCache, find_encoder, quieten, unpacked, unusable
from tasks.retrieval.masking import mask, schema_words
from tasks.retrieval.ranking import Bm25Ranker, Ranker, best
from tasks.settings.pipeline import DemonstrationSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sentence_transformers import SentenceTransformer

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
        """Index a pool, from which leaks are already removed (`leak_guard.without_leaks`).

        `cache` is the folder of embedded texts; None: nothing is kept. `schema_names`, by database id, are for masking.
        `progress` is called with a sentence about work that takes a while.

        Raises:
            ConfigurationError: the encoder cannot be had.
        """
        self._pool = tuple(pool)
        self._settings = settings
        self._names = schema_names or {}
        self._words: dict[str, frozenset[str]] = {}
        self._found: dict[tuple[str, str], tuple[Demonstration, ...]] = {}
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
            dict.fromkeys(key for q in questions if (key := (q.text, q.database_id)) not in self._found)
        )
        if self._ranker is None:
            self._found.update((key, ()) for key in new)
        elif new:
            ranked = self._ranker.rank([self._seen(*key) for key in new], self._settings.k)
            for key, positions in zip(new, ranked, strict=True):
                self._found[key] = tuple(self._pool[position] for position in positions)
        return tuple(self._found[question.text, question.database_id] for question in questions)

    def _build(self, cache: Path | None, progress: Progress | None) -> Ranker:
        texts = [self._seen(example.question, example.database_id) for example in self._pool]
        if self._settings.retriever == "bm25":
            return Bm25Ranker(texts)
        return EmbeddingRanker(
            texts,
            encoder=self._settings.encoder,
            metric=self._settings.metric,
            cache=cache,
            progress=progress,
        )

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
        """Embed the pool, or read its vectors from `cache`.

        Raises:
            ConfigurationError: the encoder cannot be had.
        """
        self._source = find_encoder(encoder)
        self._metric = metric
        self._cache = VectorCache(cache, self._source.identity) if cache else None
        self._say = progress or (lambda message: None)
        self._model: SentenceTransformer | None = None
        self._unique = tuple(dict.fromkeys(texts))
        places = {text: place for place, text in enumerate(self._unique)}
        self._places = [places[text] for text in texts]  # equal texts share a vector, so their ties are exact
        self._vectors = self._embed(self._unique)

    def rank(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Return the positions of the k nearest texts per query; see `Ranker.rank`."""
        unique = tuple(dict.fromkeys(queries))
        vectors = self._embed(unique)
        found: dict[str, list[int]] = {}
        for start in range(0, len(unique), BLOCK):
            scores = self._scores(vectors[start : start + BLOCK])[:, self._places]
            found.update((text, best(row, k)) for text, row in zip(unique[start:], scores, strict=False))
        return [found[query] for query in queries]

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

        kept = self._cache.load(texts) if self._cache else None
        if kept is not None:
            return kept
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
