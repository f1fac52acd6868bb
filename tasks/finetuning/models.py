"""Opens the model to fine-tune, or a fine-tuned one."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tasks.core.errors import ConfigurationError
from tasks.finetuning.encoding import require_libraries, set_chat_template

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import dtype
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

T = TypeVar("T")
Precision = Literal["auto", "float32", "bfloat16"]


def open_tokenizer(model: str) -> "PreTrainedTokenizerBase":
    """Open a model's tokenizer, with a token to pad with and a chat template.

    Raises:
        ConfigurationError: it cannot be had.
    """
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = _had(model, AutoTokenizer.from_pretrained)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    set_chat_template(tokenizer)
    return tokenizer


def open_model(model: str, precision: Precision) -> "PreTrainedModel":
    """Open a causal language model.

    Raises:
        ConfigurationError: it cannot be had.
    """
    from transformers import AutoModelForCausalLM

    opened: PreTrainedModel = _had(model, AutoModelForCausalLM.from_pretrained, dtype=dtype_of(precision))
    return opened


def open_eliminator(
    adapter: Path, precision: Precision = "auto"
) -> "tuple[PeftModel, PreTrainedTokenizerBase]":
    """Open a fine-tuned model: the base that its adapter names, and the adapter.

    Raises:
        ConfigurationError: there is no adapter, or its base cannot be had.
    """
    require_libraries()
    from peft import PeftModel

    base = base_of(adapter)
    tokenizer = open_tokenizer(str(adapter) if (adapter / "tokenizer_config.json").is_file() else base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation warnings of the libraries
        model: PeftModel = _had(
            str(adapter), lambda name: PeftModel.from_pretrained(open_model(base, precision), name)
        )
    model.to(device()).eval()
    return model, tokenizer


def base_of(adapter: Path) -> str:
    """Return the model that an adapter was trained on.

    Raises:
        ConfigurationError: there is no adapter.
    """
    return str(adapter_config(adapter)["base_model_name_or_path"])


def adapter_config(adapter: Path) -> dict[str, Any]:
    """Read an adapter's configuration.

    Raises:
        ConfigurationError: there is no adapter.
    """
    config = adapter / "adapter_config.json"
    if not config.is_file():
        raise ConfigurationError(
            f"There is no adapter in {adapter}: {config.name} is missing. `crosscheck finetune train` writes one."
        )
    content: dict[str, Any] = json.loads(config.read_text(encoding="utf-8"))
    return content


def device() -> str:
    """Return where models run."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_of(precision: Precision) -> "dtype":
    """Return the type of a model's weights."""
    import torch

    if precision == "auto":
        has = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if has else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def linear_modules(model: "PreTrainedModel") -> list[str]:
    """Return the names of all linear projections, the output head among them, as LoRA wants them."""
    from torch.nn import Linear

    return sorted(
        {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, Linear)}
    )


def _had(name: str, open_: Callable[..., T], **options: Any) -> T:
    try:
        return open_(name, **options)
    except Exception as error:  # each way in which a model's files can be wrong has an exception of its own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigurationError(
            f'The model "{name}" cannot be opened: {lines[0]} Name a folder that holds one, or a model on the Hugging '
            "Face hub that this machine can reach."
        ) from error
