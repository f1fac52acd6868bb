"""Merges a fine-tuned adapter into its base model, and prints the commands that serve it."""

import shlex
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.core.errors import ConfigurationError
from tasks.finetuning.models import Precision, adapter_config, base_of, open_eliminator


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged model."""

    model: Path  # its folder
    base: str  # the model that the adapter was trained on
    rank: int  # rank of the adapter's matrices


def merge(adapter: Path, output: Path, precision: Precision = "auto") -> Merged:
    """Add an adapter's weights to those of its base, and write the model with its tokenizer and chat template.

    The folder is written whole or not at all.

    Raises:
        ConfigurationError: a library is missing, there is no adapter, its base cannot be had, or the folder is in use.
    """
    found = Merged(output, base_of(adapter), int(adapter_config(adapter)["r"]))
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ConfigurationError(f"--output {output} is not empty. Name another folder, or remove it.")
    adapted, tokenizer = open_eliminator(adapter, precision)
    _untie(adapted.get_base_model())
    draft = output.with_name(f".{output.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation warnings of the libraries
        merged: Any = adapted.merge_and_unload()
        merged.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    if output.exists():
        output.rmdir()
    draft.replace(output)
    return found


def _untie(model: Any) -> None:
    """Give an output head that shares its weights with the input embeddings weights of its own.

    The adapter changes the head alone; merged into shared weights, it would change the embeddings as well.
    """
    from torch.nn import Parameter

    if not getattr(model.config, "tie_word_embeddings", False):
        return
    head = model.get_output_embeddings()
    linear = getattr(head, "base_layer", head)
    linear.weight = Parameter(linear.weight.detach().clone())
    model.config.tie_word_embeddings = False


NAME, HOST, PORT = "eliminator", "127.0.0.1", 8001
"""The served model's name, and where `conf/backbones/eliminator.yaml` looks for it."""
VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM takes for `--max-lora-rank`; its default is 16."""


def merge_command(adapter: Path) -> str:
    """Return the command that merges an adapter into its base model."""
    return _command("crosscheck", "finetune", "merge", "--adapter", adapter, "--output", NAME)


def vllm_with_adapter(adapter: Path, base: str, rank: int) -> str:
    """Return the command that serves a base model and its adapter with vLLM.

    vLLM (0.33) refuses an adapter of the output head where the model's class does not list it in `embedding_modules`:
    Mistral's does not, Llama's and Qwen3's do.
    """
    most = next((size for size in VLLM_RANKS if size >= rank), VLLM_RANKS[-1])
    return _command(
        "vllm", "serve", base, "--enable-lora", "--max-lora-rank", most, "--lora-modules", f"{NAME}={adapter}",
        "--chat-template", adapter / "chat_template.jinja", "--host", HOST, "--port", PORT,
    )  # fmt: skip


def vllm_merged(model: Path) -> str:
    """Return the command that serves a merged model with vLLM."""
    return _command("vllm", "serve", model, "--served-model-name", NAME, "--host", HOST, "--port", PORT)


def transformers_merged(model: Path) -> str:
    """Return the command that serves a merged model with Transformers.

    Its server answers to no other name than the one it is started with, so it is started beside the folder: a folder
    named "eliminator" is served under that name.
    """
    serve = _command("transformers", "serve", model.name, "--host", HOST, "--port", PORT)
    return f"cd {shlex.quote(str(model.absolute().parent))} && {serve}"


def _command(*parts: object) -> str:
    return shlex.join(map(str, parts))
