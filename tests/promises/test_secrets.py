"""A key that only its endpoint may see: looked for in everything that is written, shown, sent elsewhere or running."""

import resource
from pathlib import Path

import psutil
import pytest

from tests.support import in_process
from tests.support.command_line import CommandLine, finish, read_until, start_module
from tests.support.contents import contents
from tests.support.counting import Count
from tests.support.demo import demo_questions
from tests.support.fake_openai import FakeOpenAI, error

pytestmark = pytest.mark.slow

CANARY = "canary-7c1e5a0b-key"
"""A key that no pattern of keys recognises."""
COMMANDS = (
    ("runs",), ("show", "latest"), ("show", "latest", "0"), ("status",),
    ("nights", "show", "latest", "--html", "night.html"),
    ("show", "latest", "--html", "run.html"), ("compare", "latest~1", "latest", "--html", "comparison.html"),
    ("leaderboard", "--html", "board.html"), ("query", "SELECT * FROM runs", "--json"),
    ("export", "parquet"), ("tables", "latest"),
)  # fmt: skip
REFUSED = {
    "a password in base_url": ("backbone.base_url=http://user:{}@127.0.0.1:9/v1", "base_url"),
    "a key in base_url": ("backbone.base_url=http://127.0.0.1:9/v1?key={}", "base_url"),
    "a key instead of its variable's name": ("backbone.api_key_env={}", "api_key_env"),
}
HOLD = {
    "home/replies.sqlite": "{question}", "home/warehouse.duckdb": "{question}", "home/mlflow.db": "{question}",
    "work/run.html": "{question}", "home/stages.sqlite": "SELECT",
    "work/recording.jsonl": "SELECT", "work/comparison.html": "few-shot", "work/night.html": "zero-shot",
}  # fmt: skip
"""What is found in files by what looks for the key."""


@pytest.mark.promise("secrets")
def test_a_key_is_in_nothing_that_is_written_shown_or_dumped(
    demo: CommandLine,
    backbone_file: str,
    model: FakeOpenAI,
    count: Count,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Path(backbone_file).open("a", encoding="utf-8") as file:
        file.write("api_key_env: CANARY_KEY\n")
    proxy = f"http://user:{CANARY}@127.0.0.1:9"
    secrets = {"CANARY_KEY": CANARY, "HTTPS_PROXY": proxy, "NO_PROXY": "127.0.0.1"}
    demo.environment = {**demo.environment, **secrets}
    work = tmp_path / "work"
    work.mkdir()
    demo.cwd = work
    model.latency = 0.3
    model.script(
        error(500, f"Key {CANARY} of {proxy} met a fault"),
        error(400, f"Key {CANARY} of {proxy} is filtered", code="content_filter"),
    )
    options = ("--limit", "3", "--pipeline", "few-shot", "--json")
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    assert hard != 0, "core dumps are off here, so that this cannot be tested"
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    recorded = ("--record", "recording.jsonl")
    process = demo.start_anew("evaluate", "--backbone", backbone_file, *options, *recorded)
    said = read_until(process, "questions, ")
    model.wait_for(4)
    running = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    with count.fault("titles of processes"):
        assert len(running) > 1 and not any(CANARY in word for each in running for word in each.cmdline())
    with count.fault("environment of SQL workers"):
        workers = [each for each in running if "tasks.database.sandbox.worker" in each.cmdline()]
        assert workers and not any(CANARY in repr(each.environ()) for each in workers)
    with count.fault("core dumps"):
        limits = [each.rlimit(resource.RLIMIT_CORE)[0] for each in running]
        assert limits == [0] * len(running)
    ended = finish(process)
    with count.fault("evaluate --record"):
        assert ended.code in (0, 3) and CANARY not in said + ended.out + ended.err, ended.err
        assert model.requests[-1].headers["authorization"] == f"Bearer {CANARY}"
    words = (backbone_file, "3", "zero-shot")
    night = start_module("tests.support.night_process", words, demo.all_of_environment)
    with count.fault("a night"):
        ran = finish(night)
        assert ran.code == 0 and CANARY not in ran.out + ran.err, ran.err
    for name, value in demo.all_of_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(work)
    for arguments in COMMANDS:
        with count.fault(" ".join(arguments)):
            ran = in_process.run(*arguments)
            assert ran.code == 0 and CANARY not in ran.out + ran.err, ran.err
    for what, (setting, named) in REFUSED.items():
        with count.fault(what):
            ran = in_process.run("evaluate", "--backbone", backbone_file, "--set", setting.format(CANARY))
            assert ran.code == 2 and named in ran.err and CANARY not in ran.out + ran.err, ran.err
    server = next(tmp_path_factory.getbasetemp().glob("prefect-server*"))
    files = [path for place in (demo.home, work, server) for path in place.rglob("*") if path.is_file()]
    question = demo_questions(demo.home)[0]["question"][:20]
    for name, held in HOLD.items():
        with count.fault(f"{name} can be read by this test"):
            text = held.format(question=question).encode()
            assert any(text in part for part in contents(tmp_path / name))
    with count.fault(f"{len(files)} files"):
        found = [path for path in files if any(CANARY.encode() in part for part in contents(path))]
        assert len(files) > 30 and found == []
