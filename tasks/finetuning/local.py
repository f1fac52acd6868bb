"""A fine-tuned eliminator that answers in this process, to judge it before it is served."""

import asyncio
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.backbone.protocol import Reply, Request, request_key
from tasks.core.errors import BackboneError
from tasks.core.outcome import Call, Usage
from tasks.finetuning.encoding import encode_prompt
from tasks.finetuning.models import open_eliminator

if TYPE_CHECKING:
    from torch.nn import Module
    from transformers import PreTrainedTokenizerBase

LONGEST_RESPONSE = 512
"""Tokens after which a response is cut off."""


class LocalEliminator:
    """A model with its adapter behind the interface of every backbone; greedy, one request at a time."""

    def __init__(
        self, model: "Module", tokenizer: "PreTrainedTokenizerBase", name: str, weights: str
    ) -> None:
        self._model: Any = model
        self._tokenizer = tokenizer
        self._name = name
        self._weights = weights
        self._turn = asyncio.Lock()

    @classmethod
    def open(cls, adapter: Path) -> "LocalEliminator":
        """Open what `tasks.finetuning.training` wrote.

        Raises:
            ConfigurationError: a library is missing, there is no adapter, or its base model cannot be had.
        """
        model, tokenizer = open_eliminator(adapter)
        weights = hashlib.sha256((adapter / "adapter_model.safetensors").read_bytes()).hexdigest()
        return cls(model, tokenizer, adapter.name, weights)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Which adapter answers."""
        return {"kind": "adapter", "model": self._name, "weights": self._weights}

    async def complete(self, request: Request) -> Reply:
        """Answer the last message of a request.

        Raises:
            BackboneError: the prompt is longer than the model can read.
        """
        async with self._turn:
            return await asyncio.to_thread(self._answer, request)

    def _answer(self, request: Request) -> Reply:
        import torch

        started = time.perf_counter()
        prompt = encode_prompt(request.messages[-1].content, self._tokenizer)
        longest = getattr(self._model.config, "max_position_embeddings", None)
        if longest and len(prompt) >= longest:
            raise BackboneError(
                f"The prompt has {len(prompt):,} tokens, the model reads {longest:,}.", transient=False
            )
        room = min(LONGEST_RESPONSE, longest - len(prompt)) if longest else LONGEST_RESPONSE
        ids = torch.tensor([prompt], device=self._model.device)
        with torch.inference_mode():
            generated = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=room,
                pad_token_id=self._tokenizer.pad_token_id,
            )
        response = generated[0][len(prompt) :].tolist()
        ended = bool(response) and response[-1] == self._tokenizer.eos_token_id
        text: Any = self._tokenizer.decode(response, skip_special_tokens=True)
        call = Call(
            request_key(self.identity, request),
            self._name,
            Usage(input=len(prompt), output=len(response)),
            cached=False,
            seconds=time.perf_counter() - started,
        )
        return Reply(str(text), call, truncated=not ended)
