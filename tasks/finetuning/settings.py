"""Settings of the eliminator's fine-tuning; the defaults are the paper's (SEA-SQL, section 3)."""

from typing import Literal

from pydantic import Field

from tasks.settings.base import Settings


class FinetuningSettings(Settings):
    """LoRA fine-tuning of a causal language model on training pairs."""

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
    """Pairs per step, over all devices."""
    device_batch_size: int = Field(1, ge=1, le=1_000_000)
    """Pairs that a device takes at a time; the rest of the batch is accumulated."""
    epochs: int = Field(1, ge=1, le=100)
    """Times that every pair is shown."""
    max_tokens: int = Field(4096, ge=16, le=1_000_000)
    """Longest pair; longer ones are left out, because cutting one would teach half an answer."""
    checkpoint_every: int = Field(50, ge=1, le=1_000_000)
    """Steps between two checkpoints, from which the same command continues."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """"auto": bfloat16 where the device has it, else float32."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Seed of the new weights, the order of the pairs, and dropout."""
