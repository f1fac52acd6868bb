"""A real sentence encoder, tiny and made on the spot."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

WORDS = "how many cows pigs are there which animal is the oldest list all farms name of owner what average age in each"


@pytest.fixture(scope="session")
def make_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return a function that saves a randomly initialised BERT of 32 dimensions, and its folder."""

    def make(seed: int) -> Path:
        import torch
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.models import Pooling, Transformer
        from transformers import BertConfig, BertModel, BertTokenizerFast

        folder = tmp_path_factory.mktemp("encoder")
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(re.findall(r"\w+", WORDS))]
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
        torch.manual_seed(seed)
        bert = BertModel(
            BertConfig(
                vocab_size=len(vocabulary),
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=64,
            )
        )
        bert.save_pretrained(folder / "bert")
        BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder / "bert")
        transformer = Transformer(str(folder / "bert"))
        SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu").save(
            str(folder / "saved")
        )
        return folder / "saved"

    return make


@pytest.fixture(scope="session")
def encoder(make_encoder: Callable[[int], Path]) -> Path:
    return make_encoder(0)
