"""Commands that serve an eliminator at the endpoint of `conf/backbones/eliminator.yaml`."""

import shlex
from pathlib import Path

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
