"""A real causal language model, tiny and made on the spot, and pairs to teach it."""

import re
from pathlib import Path

import pytest

from tasks.finetuning.pairs import TrainingPair
from tasks.stages.sea_sql.elimination_prompt import EliminationPrompt

TEMPLATE = (
    "{% for message in messages %}<user>{{ message.content }}</user>{% endfor %}"
    "{% if add_generation_prompt %}<answer>{% endif %}"
)


def pair(number: int, *, right: bool = True, question: str = "", sql: str = "SELECT 1") -> TrainingPair:
    prompt = EliminationPrompt("Judge.", f"q{number}")
    return TrainingPair(
        prompt.instruction,
        prompt.input,
        sql if right else f"SELECT {number % 10}",
        str(number),
        question or f"question {number}?",
        "museum",
        sql,
        f"SELECT {number % 10}",
        right,
    )


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "model", positions=512)


def write_tiny_model(folder: Path, positions: int, words_of: str = "") -> Path:
    """Write a randomly initialised Llama of 32 dimensions and two layers.

    Its tokenizer knows single characters, and as tokens of their own the words of a text.
    """
    import torch

    torch.set_num_threads(1)  # several threads on a model of this size only wait for one another
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    characters = ["<pad>", "<s>", "</s>", "<unk>", *map(chr, range(32, 127)), "\n"]
    characters += sorted(set(re.findall(r"\w{2,}", words_of)))
    core = Tokenizer(
        models.WordLevel({token: place for place, token in enumerate(characters)}, unk_token="<unk>")
    )
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+|[\s\S]" if words_of else r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(characters),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=positions,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    ).save_pretrained(folder)
    return folder
