"""Stores embeddings on disk, so that a second run does not load the encoder."""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.files import atomic_write

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FORMAT = 1


class VectorCache:
    """One `.npy` file per list of texts and encoder: float32, one row per text.

    A file that is cut or damaged counts as absent, and is written again.
    """

    def __init__(self, folder: Path, encoder_identity: str) -> None:
        self._folder = folder
        self._identity = encoder_identity

    def path(self, texts: Sequence[str]) -> Path:
        """Return the file of these texts, whether or not it exists."""
        key = json.dumps([FORMAT, self._identity, *texts], ensure_ascii=True)
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.npy"

    def load(self, texts: Sequence[str]) -> "npt.NDArray[np.float32] | None":
        """Return the stored vectors of these texts; None if there are none."""
        import numpy as np

        try:
            vectors: npt.NDArray[np.float32] = np.load(self.path(texts), allow_pickle=False)
        except (FileNotFoundError, EOFError, ValueError):
            return None
        with suppress(OSError):
            self.path(texts).touch()  # `crosscheck clean` removes what was not used for long
        return vectors if vectors.ndim == 2 and len(vectors) == len(texts) else None

    def store(self, texts: Sequence[str], vectors: "npt.NDArray[np.float32]") -> None:
        """Write the vectors of these texts to disk atomically."""
        import numpy as np

        with atomic_write(self.path(texts)) as draft, draft.open("wb") as file:
            np.save(file, vectors)
