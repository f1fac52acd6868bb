"""Merges a fine-tuned adapter into its base model: one folder that every server can load."""

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
