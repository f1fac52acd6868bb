"""Train, merge and serve an eliminator with `transformers serve`, and let the pipeline ask it: every part is real.

Not in the suite, because it takes about a minute:

    pytest tests/benchmarks/serve_eliminator.py
"""

import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml

from tasks.backbone.protocol import Message, Request
from tasks.finetuning.encoding import encode_prompt
from tasks.finetuning.local import LocalEliminator
from tasks.finetuning.models import open_tokenizer
from tasks.finetuning.pairs import read_pairs, write_pairs
from tasks.settings.home import Home, find_conf
from tasks.stages.sea_sql.bias_elimination import read_elimination
from tasks.tracking.warehouse.runs import Warehouse
from tests.flows.conftest import demo
from tests.support import in_process
from tests.support.command_line import CommandLine, built_demo, crosscheck, prefect_server
from tests.tasks.finetuning.conftest import write_tiny_model

__all__ = ["built_demo", "crosscheck", "demo", "prefect_server"]
QUESTIONS = 2
READY_S = 120


async def test_the_pipeline_is_answered_by_the_served_model_as_by_the_adapter(
    demo: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(demo.home))
    pairs, out, merged = tmp_path / "pairs.jsonl", tmp_path / "out", tmp_path / "eliminator"
    limit = ("--limit", str(QUESTIONS))
    made = demo.run("finetune", "dataset", *limit, "--output", str(pairs), "--held-out", "0")
    assert made.code == 0, made.err
    write_pairs(pairs, [replace(pair, response="SELECT 1") for pair in read_pairs(pairs)])
    model = write_tiny_model(tmp_path / "tiny", positions=2048, words_of=pairs.read_text(encoding="utf-8"))
    changes = [f"model={model}", "rank=16", "dropout=0", "learning_rate=0.01", "batch_size=2", "epochs=40"]
    trained = in_process.run(
        "finetune", "train", "--pairs", str(pairs), "--output", str(out),
        *(part for change in (*changes, "device_batch_size=2") for part in ("--set", change)),
    )  # fmt: skip
    assert trained.code == 0, trained.err
    assert f"--lora-modules eliminator={out / 'adapter'} --chat-template" in trained.out
    ran = in_process.run(
        "finetune", "merge", "--adapter", str(out / "adapter"), "--output", str(merged), "--json"
    )
    assert ran.code == 0, ran.err

    with served(ran.json["serve"]["transformers"], tmp_path / "server.log") as url:
        settings = yaml.safe_load((find_conf() / "backbones" / "eliminator.yaml").read_text(encoding="utf-8"))
        backbone = tmp_path / "eliminator.yaml"
        backbone.write_text(yaml.safe_dump({**settings, "base_url": url}), encoding="utf-8")
        evaluated = demo.run(
            "evaluate", "--pipeline", "sea-sql", *limit, "--set", "benchmark.questions=train.json",
            "--set", "benchmark.train=null", "--set", f"pipeline.eliminator={backbone}", "--json",
        )  # fmt: skip
    assert evaluated.code == 0, evaluated.err
    rows = Warehouse(Home(demo.home).warehouse).read_run(evaluated.json["run_id"]).rows
    adapter, tokenizer = LocalEliminator.open(out / "adapter"), open_tokenizer(str(out / "adapter"))
    prompts = {pair.question_id: pair for pair in read_pairs(pairs)}
    assert len(rows) == QUESTIONS == len(prompts)
    for row in rows:
        (stage,) = (one for one in row.outcome.stages if one.stage == "bias_elimination")
        (call,) = stage.calls
        pair = prompts[row.question.id]
        assert call.usage.input == len(encode_prompt(pair.prompt.text, tokenizer))
        local = read_elimination(await adapter.complete(request(pair.prompt.text)), pair.sql, "sqlite")
        assert stage.value == {"sql": local.sql, "outcome": local.outcome, "note": local.note}
        assert local.outcome == "changed", local


def request(text: str) -> Request:
    return Request((Message("user", text),), temperature=0.0)


@contextmanager
def served(command: str, log: Path) -> Iterator[str]:
    """Run the command that `merge` printed, at a port that is free, until the block ends."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    cd, folder, and_, _, *words = shlex.split(command)
    assert (cd, and_, words[-2]) == ("cd", "&&", "--port")
    run = [sys.executable, "-m", "transformers.cli.transformers", *words[:-1], str(port)]
    with (
        log.open("wb") as output,
        subprocess.Popen(run, cwd=folder, stdout=output, stderr=output) as process,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(timeout=30)


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server answers."""
    ends = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < ends:
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the server does not answer: {log.read_text(errors='replace')[-2000:]}")
