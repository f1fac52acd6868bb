"""Fine-tuning of SEA-SQL's eliminator with TRL and LoRA, with the hyperparameters of the paper (SEA-SQL, section 3)."""

import hashlib
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from flows.evaluate.training_pairs import TrainingPair
from tasks.core.errors import ConfigurationError, DataError, did_you_mean, first_problem
from tasks.results.mlflow.experiment import logged_by_library
from tasks.settings.base import Settings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from trl.trainer.sft_trainer import SFTTrainer

EXPERIMENT = "crosscheck/finetuning"


class FinetuningSettings(Settings):
    """LoRA fine-tuning of a causal language model."""

    model: str = "mistralai/Mistral-7B-v0.1"
    """Model to start from: a folder, or a name on the Hugging Face hub."""
    rank: int = Field(64, ge=1, le=1_000_000)
    """Rank of the LoRA matrices."""
    alpha: int = Field(32, ge=1, le=1_000_000)
    """Scale of the LoRA matrices: they count alpha / rank."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout before the LoRA matrices. They are on all linear projections and the output head."""
    learning_rate: float = Field(2e-4, gt=0, le=1)
    """Highest learning rate; it falls linearly to 0 after the warm-up."""
    warmup: float = Field(0.1, ge=0, lt=1)
    """Share of the steps in which the learning rate rises."""
    batch_size: int = Field(64, ge=1, le=1_000_000)
    """Pairs per step of one device."""
    device_batch_size: int = Field(1, ge=1, le=1_000_000)
    """Pairs that a device takes at a time; gradients are accumulated over the rest of the batch."""
    epochs: int = Field(1, ge=1, le=100)
    """Number of times that every pair is shown."""
    max_tokens: int = Field(4096, ge=16, le=1_000_000)
    """Longest pair; longer ones are left out, because a part of an answer would be learnt."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Seed of the new weights, the order of the pairs, and dropout."""


def finetuning_settings(overrides: Sequence[str]) -> FinetuningSettings:
    """Return the paper's settings with the values of `--set KEY=VALUE`."""
    content: dict[str, str] = {}
    for override in overrides:
        key, equals, content[key] = override.partition("=")
        if not equals or key not in FinetuningSettings.model_fields:
            hint = did_you_mean(key, FinetuningSettings.model_fields)
            raise ConfigurationError(
                f'--set {override}: write KEY=VALUE, for example "--set rank=16". {hint}'
            )
    try:
        return FinetuningSettings.model_validate(content, strict=False)
    except ValidationError as error:
        raise ConfigurationError(f"--set {first_problem(error)}.") from None


@dataclass(frozen=True, slots=True)
class Trained:
    """Outcome of a training."""

    adapter: Path  # folder of the adapter and its tokenizer
    steps: int
    pairs: int  # pairs trained on
    too_long: int  # pairs left out because they have more tokens than allowed
    loss: float | None  # mean loss of the last step; None if none was logged


def train(pairs: Sequence[TrainingPair], settings: FinetuningSettings, output: Path, home: Home) -> Trained:
    """Train an adapter, from the last checkpoint of the same pairs and settings if there is one.

    TRL logs parameters and the metrics of every step to MLflow.
    """
    model, tokenizer = _open(settings.model)
    examples = [pair for pair in pairs if _length(pair, tokenizer) <= settings.max_tokens]
    if not examples:
        raise DataError(
            f"Each of the {len(pairs):,} training pairs has more than {settings.max_tokens:,} tokens. Allow more: "
            '"--set max_tokens=8192".'
        )
    trainer = _trainer(model, tokenizer, examples, settings, output)
    # the last file of a checkpoint: one without it was cut off
    states = Path(str(trainer.args.output_dir)).glob("checkpoint-*/trainer_state.json")
    last = max(states, key=lambda state: state.stat().st_mtime_ns, default=None)
    with logged_by_library(home, EXPERIMENT), redirect_stdout(sys.stderr):
        trainer.train(resume_from_checkpoint=str(last.parent) if last else None)
    adapter = output / "adapter"
    adapted: Any = trainer.model
    adapted.save_pretrained(str(adapter), save_embedding_layers=False)
    tokenizer.save_pretrained(str(adapter))
    losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    return Trained(
        adapter,
        trainer.state.global_step,
        len(examples),
        len(pairs) - len(examples),
        losses[-1] if losses else None,
    )


def _length(pair: TrainingPair, tokenizer: "PreTrainedTokenizerBase") -> int:
    tokens: Any = tokenizer.apply_chat_template([*pair.prompt, *pair.completion], return_dict=False)
    return len(tokens)


def _open(name: str) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Open a model and its tokenizer; base models get a chat template."""
    try:
        import torch
        import trl  # noqa: F401 - missing without the extra
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ConfigurationError(
            f'Fine-tuning needs {error.name}. Install it: pip install "crosscheck-sql[finetune]"'
        ) from None
    half = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16 if half else torch.float32)
    except Exception as error:  # each way in which a model's files can be wrong has an exception of its own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigurationError(
            f'The model "{name}" cannot be opened: {lines[0]} Name a folder that has one, or a model on the Hugging '
            "Face hub that this machine can reach."
        ) from error
    if not tokenizer.chat_template:
        tokenizer.chat_template = _plain_template(tokenizer)
    return model, tokenizer


def _plain_template(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return the chat template that adds nothing to a message but the tokens that begin a text and end a reply.

    The prompt has the instruction / input / response layout already. Endpoints refuse chat requests to a model without
    a template, so it is saved with the adapter.
    """
    begins = tokenizer("x")["input_ids"][:1] == [tokenizer.bos_token_id]
    return (
        ("{{ bos_token }}" if begins else "")
        + "{% for message in messages %}{{ message['content'] }}"
        + "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    )


def _trainer(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    examples: Sequence[TrainingPair],
    settings: FinetuningSettings,
    output: Path,
) -> "SFTTrainer":
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from torch.nn import Linear
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    linear = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, Linear)}
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=sorted(linear),
    )
    arguments = SFTConfig(
        output_dir=str(output / "checkpoints" / _digest(examples, settings)),
        run_name=output.name,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.device_batch_size,
        gradient_accumulation_steps=max(1, settings.batch_size // settings.device_batch_size),
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=settings.warmup,
        max_length=settings.max_tokens,
        loss_type="nll",  # the other losses leave out an adapter of the output head
        completion_only_loss=True,
        bf16=model.dtype == torch.bfloat16,
        logging_steps=1,
        save_steps=50,
        save_total_limit=2,
        report_to="mlflow",
        seed=settings.seed,
    )
    return SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(
            [{"prompt": pair.prompt, "completion": pair.completion} for pair in examples]
        ),
        processing_class=tokenizer,
        peft_config=lora,
    )


def _digest(examples: Sequence[TrainingPair], settings: FinetuningSettings) -> str:
    """Return what names the checkpoints of a training, so that no other training continues them."""
    content = json.dumps([settings.model_dump(mode="json"), list(map(asdict, examples))])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
