"""LoRA fine-tuning of the eliminator (SEA-SQL, section 3): resumable, loss on the response only."""

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import ConfigurationError, DataError
from tasks.core.files import atomic_write_text
from tasks.finetuning.encoding import Encoded, encode, require_libraries
from tasks.finetuning.models import device, dtype_of, linear_modules, open_model, open_tokenizer
from tasks.finetuning.pairs import TrainingPair, digest_of
from tasks.finetuning.settings import FinetuningSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Trainer

ADAPTER, CHECKPOINTS, RECORD = "adapter", "checkpoints", "training.json"
Logged = Callable[[int, Mapping[str, float]], None]
"""Callback with a step and its metrics, e.g. `loss` and `learning_rate`."""


@dataclass(frozen=True, slots=True)
class Trained:
    """Outcome of a training."""

    adapter: Path  # folder of the adapter
    steps: int  # steps of the whole training
    resumed_from: int  # step of the checkpoint that it continued from, 0 for none
    pairs: int  # pairs trained on
    too_long: int  # pairs left out because they have too many tokens
    loss: float | None  # mean loss of the last step logged; None where none was
    finished: bool = True  # False when it was stopped; a checkpoint is kept, and the same command continues


def train(
    pairs: Sequence[TrainingPair],
    settings: FinetuningSettings,
    output: Path,
    *,
    logged: Logged | None = None,
    stop: Callable[[], bool] = bool,
    progress: Callable[[str], None] | None = None,
) -> Trained:
    """Train an adapter, or resume from the last checkpoint; a finished training is not repeated.

    `logged` is called with every step's metrics, `progress` with messages. `stop` is checked after every step: True
    saves a checkpoint and ends the training.

    Raises:
        ConfigurationError: a library is missing, the model cannot be had, or the folder holds another training.
        DataError: every pair is too long.
    """
    report = progress or (lambda text: None)
    record = Record.of(pairs, settings)
    if (done := record.finished_in(output)) is not None:
        return done
    require_libraries()
    report(f"Opening {settings.model}")
    tokenizer = open_tokenizer(settings.model)
    encoded = encode(pairs, tokenizer, settings.max_tokens)
    if not encoded.examples:
        raise DataError(
            f"Each of the {len(pairs):,} training pairs has more than {settings.max_tokens:,} tokens. Allow more: "
            '"--set max_tokens=8192".'
        )
    record.begin(output)
    checkpoint = last_checkpoint(output)
    resumed_from = _step_of(checkpoint) if checkpoint else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecation warnings of the libraries
        trainer = _trainer(encoded, tokenizer, settings, output, logged or (lambda step, metrics: None), stop)
        after = f", after step {resumed_from:,}" if checkpoint else ""
        report(f"Training on {len(encoded.examples):,} pairs{after}")
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    steps = int(trainer.state.global_step)
    losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    trained = Trained(
        output / ADAPTER,
        steps,
        resumed_from,
        len(encoded.examples),
        encoded.too_long,
        losses[-1] if losses else None,
        finished=steps >= int(trainer.state.max_steps),
    )
    if trained.finished:
        model: Any = trainer.model
        model.save_pretrained(str(trained.adapter), save_embedding_layers=False)
        tokenizer.save_pretrained(str(trained.adapter))
        record.finish(output, trained)
    return trained


@dataclass(frozen=True, slots=True)
class Record:
    """What is trained, so that a folder is never continued with something else."""

    settings: Mapping[str, Any]  # the settings, as plain JSON
    pairs: str  # sha256 of what the pairs teach

    @classmethod
    def of(cls, pairs: Sequence[TrainingPair], settings: FinetuningSettings) -> "Record":
        """Return the record of a training."""
        return cls(settings.model_dump(mode="json"), digest_of(pairs))

    def finished_in(self, output: Path) -> Trained | None:
        """Return what came of this training where it is finished in the folder, None where it is not.

        Raises:
            ConfigurationError: the folder holds a training on other pairs or with other settings.
        """
        file = output / RECORD
        if not file.is_file():
            return None
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["pairs"] != self.pairs or content["settings"] != self.settings:
            what = (
                "other pairs"
                if content["pairs"] != self.pairs
                else _difference(content["settings"], self.settings)
            )
            raise ConfigurationError(
                f"{output} holds a training with {what}. Name another --output, or remove that folder."
            )
        done = content.get("trained")
        return Trained(**{**done, "adapter": output / ADAPTER}) if done else None

    def begin(self, output: Path) -> None:
        """Write what is trained into the folder."""
        self._write(output, {})

    def finish(self, output: Path, trained: Trained) -> None:
        """Write that the training is finished."""
        self._write(output, {"trained": {**asdict(trained), "adapter": ADAPTER}})

    def _write(self, output: Path, more: Mapping[str, Any]) -> None:
        content = {"settings": self.settings, "pairs": self.pairs, **more}
        atomic_write_text(output / RECORD, json.dumps(content, indent=2, ensure_ascii=False))


def last_checkpoint(output: Path) -> Path | None:
    """Return the latest checkpoint that was written to its end; None where there is none.

    The state is the last file of a checkpoint: one without it was cut off.
    """
    whole = [
        path
        for path in (output / CHECKPOINTS).glob("checkpoint-*")
        if (path / "trainer_state.json").is_file()
    ]
    return max(whole, key=_step_of, default=None)


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    other = [
        f"{name} {before.get(name)!r}, not {now[name]!r}" for name in now if before.get(name) != now[name]
    ]
    return f"other settings ({'; '.join(other)})"


def _trainer(
    encoded: Encoded,
    tokenizer: "PreTrainedTokenizerBase",
    settings: FinetuningSettings,
    output: Path,
    logged: Logged,
    stop: Callable[[], bool],
) -> "Trainer":
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import DataCollatorForSeq2Seq, PrinterCallback, Trainer, TrainingArguments, set_seed

    set_seed(settings.seed)
    model = open_model(settings.model, settings.precision)
    on_gpu = device() == "cuda"
    if on_gpu:  # long prompts: memory is worth more than time
        model.gradient_checkpointing_enable()  # type: ignore[no-untyped-call]
        model.enable_input_require_grads()  # type: ignore[no-untyped-call]
    adapted = get_peft_model(
        model,
        LoraConfig(
            task_type="CAUSAL_LM",
            r=settings.rank,
            lora_alpha=settings.alpha,
            lora_dropout=settings.dropout,
            target_modules=linear_modules(model),
        ),
    )
    half = dtype_of(settings.precision) == torch.bfloat16
    devices = max(1, torch.cuda.device_count())
    accumulated = max(1, settings.batch_size // (settings.device_batch_size * devices))
    steps = settings.epochs * math.ceil(
        len(encoded.examples) / (accumulated * settings.device_batch_size * devices)
    )
    arguments = TrainingArguments(
        output_dir=str(output / CHECKPOINTS),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.device_batch_size,
        gradient_accumulation_steps=accumulated,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(settings.warmup * steps),
        bf16=half and on_gpu,
        use_cpu=not on_gpu,
        dataloader_pin_memory=on_gpu,
        logging_steps=1,
        save_steps=settings.checkpoint_every,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        seed=settings.seed,
    )
    trainer = Trainer(
        model=adapted,
        args=arguments,
        train_dataset=encoded.examples,
        data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True),
        callbacks=[_callback(logged, stop)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _callback(logged: Logged, stop: Callable[[], bool]) -> Any:
    from transformers import TrainerCallback

    class Reporting(TrainerCallback):
        """Passes metrics on, and ends the training in order when it is stopped."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            """Hand on the numbers of a step."""
            logged(
                int(state.global_step),
                {
                    name: float(value)
                    for name, value in (logs or {}).items()
                    if isinstance(value, int | float)
                },
            )

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            """Keep a checkpoint and end, if the training is stopped."""
            if stop():
                control.should_save = control.should_training_stop = True

    return Reporting()
