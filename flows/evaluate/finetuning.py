"""Fine-tuning of SEA-SQL's eliminator (SEA-SQL, section 3): training pairs of runs, and LoRA by TRL."""

import asyncio
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, TypeAdapter, ValidationError

from flows.prefect.killed_runs import registered
from flows.runtime.control import Control, Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import ConfigurationError, DataError, did_you_mean, first_problem
from tasks.core.files import atomic_write, require_file
from tasks.core.records import ColumnValues, Demonstration
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import Schema
from tasks.database.schema_text import SchemaView
from tasks.results.mlflow.experiment import logged_by_library
from tasks.results.run_record import RunRecord
from tasks.retrieval.leaks import without_leaks
from tasks.scoring.scores import QuestionScore, is_right
from tasks.settings.base import Settings
from tasks.settings.home import Home
from tasks.settings.pipeline import SeaSqlSettings
from tasks.stages.sea_sql import elimination_prompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from trl.trainer.sft_trainer import SFTTrainer


STAGE = "1_preliminary_sql"
_VALUES = TypeAdapter(tuple[ColumnValues, ...])


@dataclass(frozen=True, slots=True)
class TrainingPair:
    """A prompt of the eliminator with the SQL to answer, in the form that TRL trains on."""

    prompt: list[dict[str, str]]  # one message of the user, as at inference
    completion: list[dict[str, str]]  # one message: the preliminary SQL if it is right, else the gold SQL
    right: bool  # whether the preliminary SQL is right
    benchmark: str
    database_id: str
    question_id: str


_PAIR = TypeAdapter(TrainingPair)


@dataclass(frozen=True)
class TrainingPairs:
    """Training pairs by the text of their prompt, with counts of the questions that gave none."""

    by_prompt: dict[str, TrainingPair] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)  # questions without a pair, by reason

    def add(self, pair: TrainingPair) -> None:
        """Add a pair, or count it if its prompt occurred before."""
        text = pair.prompt[0]["content"]
        self.left_out["duplicate"] += text in self.by_prompt
        self.by_prompt.setdefault(text, pair)


def make_pairs(
    runs: Sequence[RunRecord], evaluated: Sequence[Benchmark], folders: Folders, progress: Progress
) -> TrainingPairs:
    """Make the pairs of runs of SEA-SQL on training splits, without what the evaluated benchmarks contain.

    The preliminary SQL is executed again, for its result in the prompt. No model is called.
    """
    pairs = TrainingPairs()
    for run in runs:
        settings = _sea_settings(run)
        progress.step(f"Reading {run.benchmark}")
        benchmark = folders.benchmark_of(run, progress)
        rows = _without_evaluated(run.rows, evaluated, pairs)
        asyncio.run(_add_pairs(pairs, rows, benchmark, settings, folders.home.path))
    if not pairs.by_prompt:
        raise DataError(
            f"No training pair; questions left out: {dict(pairs.left_out)}. Name a run of SEA-SQL on a training split."
        )
    return pairs


def write_pairs(path: Path, pairs: TrainingPairs) -> None:
    """Write pairs as JSON lines, the file whole or not at all."""
    with atomic_write(path) as draft, draft.open("w", encoding="utf-8") as file:
        for pair in pairs.by_prompt.values():
            file.write(json.dumps(asdict(pair), ensure_ascii=False) + "\n")


def read_pairs(path: Path) -> tuple[TrainingPair, ...]:
    """Read pairs from JSON lines."""
    number = 0
    pairs = []
    try:
        require_file(path)
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):  # noqa: B007 - named in the error
                pairs.append(_PAIR.validate_json(line))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        where = f"line {number}: " if isinstance(error, ValidationError) else ""
        raise DataError(
            f"The training pairs {path} cannot be read ({where}{first_problem(error)}). `crosscheck finetune pairs` "
            "writes them."
        ) from None
    if not pairs:
        raise DataError(f"{path} has no training pair.")
    return tuple(pairs)


def _sea_settings(run: RunRecord) -> SeaSqlSettings:
    """Return the settings of a run's pipeline, after checking that it is SEA-SQL."""
    try:
        if run.settings["pipeline"]["kind"] == "sea-sql":
            return SeaSqlSettings.model_validate_json(json.dumps(run.settings["pipeline"]))
    except ValidationError as error:
        raise ConfigurationError(
            f"The settings of the run {run.run_id} are not valid in this release: {first_problem(error)}."
        ) from None
    raise ConfigurationError(
        f"The run {run.run_id} is of the pipeline {run.pipeline}: training pairs are made from runs of "
        "SEA-SQL (--pipeline sea-sql)."
    )


def _without_evaluated(
    rows: Sequence[QuestionScore], evaluated: Sequence[Benchmark], pairs: TrainingPairs
) -> list[QuestionScore]:
    """Return the questions with a gold, each once, whose text and gold no evaluated benchmark has, in any database.

    `pairs` counts those that are left out.
    """
    examples: dict[Demonstration, QuestionScore] = {}
    for row in rows:
        question = row.question
        example = Demonstration(question.text, row.gold_sql, question.database_id, question.evidence)
        if row.executable and row.gold_sql:
            pairs.left_out["duplicate"] += example in examples
            examples.setdefault(example, row)
    questions = [question for benchmark in evaluated for question in benchmark.questions]
    golds = {fingerprint for benchmark in evaluated for fingerprint in benchmark.gold_fingerprints}
    guarded = without_leaks(examples, questions, golds)
    pairs.left_out["in an evaluated benchmark"] += guarded.removed
    return [examples[example] for example in guarded.pool]


async def _add_pairs(
    pairs: TrainingPairs,
    rows: Sequence[QuestionScore],
    benchmark: Benchmark,
    settings: SeaSqlSettings,
    home: Path,
) -> None:
    """Add the pair of each question: the reply to its prompt is its preliminary SQL if that is right, else the gold."""
    names = dict.fromkeys(row.question.database_id for row in rows)
    databases = {
        name: open_benchmark_database(benchmark, name, settings.prompt.sample_rows, home) for name in names
    }
    rows_shown = settings.bias_elimination.rows_shown
    async with SqlWorkers() as workers:
        for row in rows:
            verdict = row.stages.get(STAGE)
            sqls = {candidate.stage: candidate.sql for candidate in row.outcome.candidates}
            if verdict is None or not (sql := sqls.get(STAGE)):
                pairs.left_out["without SQL"] += 1
            elif verdict.gold_status != "ok":
                pairs.left_out["gold fails"] += 1
            else:
                database = databases[row.question.database_id]
                execution = await workers.execute(
                    database, sql, rows=rows_shown, timeout_s=benchmark.settings.timeout_s
                )
                view = _schema_view(row, database.schema, settings)
                prompt = elimination_prompt(row.question, view, sql, execution, rows_shown)
                right = is_right(verdict, benchmark.settings.rule)
                response = sql if right else row.gold_sql.strip().rstrip(";").rstrip()
                pairs.add(
                    TrainingPair(
                        prompt=[{"role": "user", "content": prompt}],
                        completion=[{"role": "assistant", "content": response}],
                        right=right,
                        benchmark=benchmark.settings.name,
                        database_id=database.id,
                        question_id=row.question.id,
                    )
                )


def _schema_view(row: QuestionScore, schema: Schema, settings: SeaSqlSettings) -> SchemaView:
    """Return the schema as the prompts of a question showed it."""
    view = SchemaView(schema, settings.prompt, descriptions=settings.descriptions)
    if settings.prompt.values != "retrieved":
        return view
    values = next((record.value for record in row.outcome.stages if record.stage == "value_retrieval"), ())
    return view.with_values(_VALUES.validate_python(values))


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
        key, equals, value = override.partition("=")
        if not equals or key not in FinetuningSettings.model_fields:
            hint = did_you_mean(key, FinetuningSettings.model_fields)
            raise ConfigurationError(
                f'--set {override}: write KEY=VALUE, for example "--set rank=16". {hint}'
            )
        content[key] = value
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
    model, tokenizer = _open_model(settings.model)

    def length(pair: TrainingPair) -> int:
        tokens: Any = tokenizer.apply_chat_template([*pair.prompt, *pair.completion], return_dict=False)
        return len(tokens)

    examples = [pair for pair in pairs if length(pair) <= settings.max_tokens]
    if not examples:
        raise DataError(
            f"Every training pair ({len(pairs):,} in total) has more than {settings.max_tokens:,} tokens. Allow more: "
            '"--set max_tokens=8192".'
        )
    trainer = _trainer(model, tokenizer, examples, settings, output)
    # the last file of a checkpoint: one without it, or with a part of it, was cut off
    states = Path(str(trainer.args.output_dir)).glob("checkpoint-*/trainer_state.json")
    last_state = max(filter(_is_whole, states), key=lambda state: state.stat().st_mtime_ns, default=None)
    control = Control()
    with (
        registered(home, control),
        logged_by_library(home, "crosscheck/finetuning", output.name, control.register),
        redirect_stdout(sys.stderr),
    ):
        trainer.train(resume_from_checkpoint=str(last_state.parent) if last_state else None)
    adapter = output / "adapter"
    adapted: Any = trainer.model
    adapted.save_pretrained(str(adapter), save_embedding_layers=False)
    tokenizer.save_pretrained(str(adapter))
    losses = [float(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    loss = losses[-1] if losses else None
    return Trained(adapter, trainer.state.global_step, len(examples), len(pairs) - len(examples), loss)


def _is_whole(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    return True


def _open_model(name: str) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Open a model and its tokenizer; base models get a chat template."""
    try:
        import torch
        import trl  # noqa: F401 - missing without the extra
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ConfigurationError(
            f'Fine-tuning needs {error.name}. Install it: pip install "crosscheck-sql[finetune]"'
        ) from None
    dtype = torch.bfloat16 if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
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
    begins_with_bos = tokenizer("x")["input_ids"][:1] == [tokenizer.bos_token_id]
    return (
        ("{{ bos_token }}" if begins_with_bos else "")
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
    content = json.dumps([settings.model_dump(mode="json"), list(map(asdict, examples))])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
