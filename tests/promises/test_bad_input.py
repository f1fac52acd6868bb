"""Wrong input of every kind: exit code 2 and one message that names the place and what to do, never a traceback."""

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import in_process
from tests.support.counting import Count

LONGEST = 1500


class Case(NamedTuple):
    """A command line with files, and what the message has to name."""

    named: str
    arguments: tuple[str, ...]
    files: Mapping[str, str | bytes] = {}


def evaluate(named: str, *arguments: str, **files: str | bytes) -> Case:
    named_files = {name.replace("__", "."): text for name, text in files.items()}
    return Case(named, ("evaluate", *arguments), named_files)


OVERRIDES = {
    "pipeline.seleciton.enabled=false": "selection",
    "pipeline.demonstrations.k=-1": "demonstrations.k",
    "pipeline.demonstrations.k=many": "demonstrations.k",
    "pipeline.demonstrations.k=": "demonstrations.k",
    "pipeline.demonstrations.k=1e99": "demonstrations.k",
    "pipeline.linking.directions=sideways": "directions",
    "pipeline.linking=3": "linking",
    "pipeline.correction.rounds=true": "rounds",
    "pipeline.correction.rounds=[1]": "rounds",
    "pipeline.prompt.sample_rows=-3": "sample_rows",
    "pipeline.nothing=1": "nothing",
    "pipeline=1": "pipeline",
    "backbone.temperature=hot": "temperature",
    "backbone.temperature=-1": "temperature",
    "backbone.concurrency=0": "concurrency",
    "backbone.concurrency=1.5": "concurrency",
    "backbone.timeout_s=0": "timeout_s",
    "backbone.timeout_s=soon": "timeout_s",
    "backbone.retries=-1": "retries",
    "backbone.reply=haiku": "reply",
    "backbone.reply_by_stage=x": "reply_by_stage",
    "backbone.response_mode=xml": "response_mode",
    "backbone.api_key_env=sk-not a name": "api_key_env",
    "backbone.prices={input: -1}": "prices",
    "backbone.prices={input: 1, output: 2, as_of: yesterday}": "as_of",
    "backbone.kind=nothing": "nothing",
    "backbone.extra_body=[1]": "extra_body",
    "backbone.modle=x": "model",
    "benchmark.rule=fair": "fair",
    "benchmark.timeout_s=-1": "timeout_s",
    "benchmark.url=ftp://x/{database}": "ftp",
    "benchmark.layout=nothing": "nothing",
    "tracking.nothing=1": "nothing",
    "nothing=1": "nothing",
    "=1": "=1",
    "pipeline": "kind.key=value",
    "pipeline.demonstrations.k": "pipeline.demonstrations.k",
    "pipeline.demonstrations.k={": "pipeline.demonstrations.k",
    "pipeline.demonstrations.k: 3": "pipeline.demonstrations.k",
    "pipeline..k=1": "pipeline..k",
    "PIPELINE.demonstrations.k=1": "PIPELINE",
    r'backbone.model="\ud800"': "backbone.model",
    r'backbone.extra_body={a: ["\0"]}': "extra_body",
    "pipeline.demonstrations.k=!!python/object/apply:os.system [touch evil]": "pipeline.demonstrations.k",
}
BACKBONES: dict[str, str | bytes] = {
    "empty": "",
    "a list": "- 1",
    "a text": "hello",
    "no YAML": "a: [",
    "tabs": "model:\t\tx\n\tbase_url: y",
    "a tag": "!!python/object/apply:os.system [touch evil]",
    "a tag in a value": "model: !!python/name:os.system",
    "not UTF-8": b"model: \xff\xfe",
    "NUL": b"model: \x00",
    "unknown key": "model: x\nbase_ulr: http://127.0.0.1",
    "a password in the address": "model: x\nbase_url: http://user:secret@127.0.0.1/v1",
    "a query in the address": "model: x\nbase_url: http://127.0.0.1/v1?key=secret",
    "no key in the environment": "model: x\napi_key_env: CROSSCHECK_NO_SUCH_KEY",
    "two limits": "model: x\nmax_tokens: 5\nmax_completion_tokens: 5",
    "a wrong type": "model: [x]",
    "a nested alias bomb": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "half a surrogate pair": r'model: "\ud800"',
    "a duplicate": "model: x\nmodel: {}",
}
BENCHMARKS: dict[str, str | bytes] = {
    "empty": "",
    "a list": "[]",
    "no folder": "layout: bird\nfolder: nowhere",
    "an unknown layout": "layout: brid\nfolder: x",
    "an unknown rule": "layout: bird\nfolder: x\nrule: brid",
    "an unknown key": "layout: bird\nfoldr: x",
    "a path out of data": "layout: bird\nfolder: ../../../../nowhere",
    "a layout in a missing file": "layout: missing.py:Mine\nfolder: x",
    "a layout in a file that fails": "layout: broken.py:Mine\nfolder: x",
}
QUESTIONS = ("abc", "5-1", "999999", "@missing.txt", "")
RUNS = ("nothing", "latest", "../../etc/passwd")
PREDICTIONS: dict[str, str | bytes] = {
    "p.json": "{",
    "q.json": "[]",
    "r.json": "3",
    "s.json": '"text"',
    "t.json": b"\xff\xfe\x00",
    "u.json": "[[1, 2]]",
    "b.json": "{}",
    "v.json": '{"0": {"nested": 1}}',
    "w.csv": "",
    "x.csv": "a,b\n1",
    "y.sql": "",
    "z.jsonl": "{}\n[",
    "a.parquet": "no parquet",
}

NESTED = "\n".join(
    ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 13))]
)
MERGED = "\n".join(["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 30))])
"""Keys that are merged twice in each line: 2^29 pairs when they are read."""
ENDLESS = {
    "model: &a [*a]": "refers to a value that contains it",
    NESTED: "more than 10,000 values",
    MERGED: "more than 10,000 values",
    "a: " + "[" * 5000: "nested too deeply",
}
SURROGATE = "\udcff"
ANY_COMMAND = {
    ("runs", "--home", "loop"): "loop of symbolic links",
    ("evaluate", "--data", "loop"): "the link points to itself",
    ("runs", "--home", "h" * 3000): "File name too long",
    ("answer", "How many?", "--database", "d" * 5000): "File name too long",
    ("score", "--predictions", "p" * 5000): "File name too long",
    ("evaluate", "--backbone", "b" * 5000): "There is no backbone",
    ("evaluate", "--limit", "2000000"): "--limit 2000000: Input should be less than or equal to 1000000.",
    ("evaluate", "--questions", SURROGATE): "it contains NUL or half of a surrogate pair",
    ("evaluate", "--benchmark", SURROGATE): "it contains NUL or half of a surrogate pair",
    ("evaluate", "--record", f"{SURROGATE}.jsonl"): "--record <U+DCFF>.jsonl: it contains NUL",
    ("evaluate", "--set", f"backbone.model={SURROGATE}"): "--set ",
    ("sweep", "--backbones", "offline", "--pipelines", "zero-shot", "--limit", "2000000"): "--limit 2000000",
    ("answer", "How many?", "--database", "a.sqlite", "--backbone", SURROGATE): "--backbone ",
    ("judge", "latest", "--backbone", SURROGATE): "--backbone ",
    ("rerun", SURROGATE): "--run ",
    ("rerun", "latest", "--questions", SURROGATE): "--questions ",
    ("clean", "--keep-runs", "2000000"): "2000000 is not in the range 0<=x<=1000000",
    ("clean", "--keep", "soon"): "write a number and d, h or m",
    ("show",): "RUN",
    ("check",): "either a BACKBONE or --url",
    ("check", "openai", "--url", "http://127.0.0.1:9/v1"): "either a BACKBONE or --url",
    ("check", "offline"): "there is no endpoint to check",
    ("check", "openai", "--model", "x"): "belong to --url",
    ("check", "--url", "http://127.0.0.1:9/v1", "--set", "backbone.seed=1"): "--set changes a BACKBONE",
    ("check", "--url", "not a url"): "not a valid address",
    ("check", "--url", "http://me:secret@host/v1"): "no user, password",
}
PG, MY = "postgresql://ann:secret@127.0.0.1", "mysql://ann:secret@127.0.0.1"
UNREACHABLE = "Check host, port and whether the server runs"
URLS = {
    f"{PG}:1/shop": UNREACHABLE,
    f"{MY}:1/shop": UNREACHABLE,
    f"{PG}:5432x/shop": "Write it as postgresql://user@host:port/database",
    f"{PG}/shop?sslmode=verify-full&sslrootcert=/no/such/file": "Say how to encrypt at the end of the URL",
    f"{PG}/shop?sslmode=sometimes": "sslmode",
    f"{MY}/shop?sslmode=sometimes": "Known are sslmode (disable, prefer",
    MY: "names no database",
    "postgressql://ann:secret@host/shop": 'Did you mean "postgresql://"',
    "oracle://ann:secret@host/shop": "Known: duckdb://",
}
"""Databases on servers."""


def cases() -> Iterator[Case]:
    """Yield every case."""
    yield from (evaluate(named, "--set", text) for text, named in OVERRIDES.items())
    yield from (evaluate("b.yaml", "--backbone", "b.yaml", b__yaml=text) for text in BACKBONES.values())
    broken = {"broken__py": "raise RuntimeError('mine')"}
    yield from (evaluate("", "--benchmark", "m.yaml", m__yaml=text, **broken) for text in BENCHMARKS.values())
    yield from (evaluate("--questions", "--questions", text) for text in QUESTIONS)
    yield evaluate("birddev", "--benchmark", "birddev")
    yield evaluate("bird-dev", "--benchmark", "bird-dev", "--data", "nowhere")
    yield evaluate("opena", "--backbone", "opena")
    yield evaluate("rslsql", "--pipeline", "rslsql")
    yield evaluate("missing.py", "--pipeline", "missing.py:vote")
    yield evaluate("broken.py", "--pipeline", "broken.py:vote", **broken)
    yield evaluate("vote", "--pipeline", "fine.py:vote", fine__py="x = 1")
    yield evaluate("missing.yaml", "--backbone", "missing.yaml")
    yield evaluate("--limit", "--limit", "0")
    yield evaluate("--limit", "--limit", "-5")
    yield evaluate("--limit", "--limit", "many")
    yield evaluate("--shards", "--shards", "0")
    yield evaluate("--nothing", "--nothing")
    yield evaluate("--tag", "--tag", "team=\udcff")
    yield evaluate("--note", "--note", "\udcff")
    yield evaluate("recording", "--backbone", "replay")
    yield evaluate("missing.jsonl", "--backbone", "replay", "--set", "backbone.recording=missing.jsonl")
    yield evaluate("OPENAI_API_KEY", "--backbone", "openai")
    yield evaluate("taken.jsonl", "--record", "taken.jsonl", taken__jsonl="{}")
    yield Case("evalute", ("evalute",))
    for command in ("show", "compare", "rerun", "export", "tables"):
        more = {"compare": ("latest",), "export": ("--submission", "x.json")}
        yield from (Case("", (command, run, *more.get(command, ()))) for run in RUNS)
    for name, content in PREDICTIONS.items():
        yield Case(name, ("score", "--benchmark", "demo", "--predictions", name), {name: content})
    yield Case("missing.json", ("score", "--benchmark", "demo", "--predictions", "missing.json"))
    for sql in ("DROP TABLE runs", "SELEC 1", "", "SELECT * FROM read_csv('/etc/passwd')"):
        yield Case("", ("query", sql))
    for database in ("missing.sqlite", ".", "text.sqlite", "http://x"):
        yield Case("", ("answer", "How many?", "--database", database), {"text.sqlite": "no database" * 100})
    yield Case("empty", ("answer", " ", "--database", "text.sqlite"), {"text.sqlite": ""})
    yield from (evaluate(named, "--backbone", "e.yaml", e__yaml=text) for text, named in ENDLESS.items())
    yield from (Case(named, arguments) for arguments, named in ANY_COMMAND.items())
    offline = ("--pipeline", "zero-shot", "--backbone", "offline")
    yield from (Case(named, ("answer", "Who?", "--database", url, *offline)) for url, named in URLS.items())


@pytest.mark.slow
@pytest.mark.promise("input")
def test_whatever_is_wrong_with_the_input_is_said_in_one_message(
    tmp_path: Path, built_demo: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what is wrong is said before Prefect's server is asked
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    shutil.copytree(built_demo, tmp_path / "home")
    for number, case in enumerate(cases()):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("loop").symlink_to("loop")
        for name, content in case.files.items():
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        with count.fault(f"{' '.join(case.arguments)} {json.dumps(dict(case.files), default=repr)}"):
            ran = in_process.run(*case.arguments)
            ran.assert_refused(code=3 if case.named == UNREACHABLE else 2)
            said = " ".join(ran.err.split())
            assert case.named in said or f'"{Path(case.named).stem}"' in said, said[-400:]
            assert "\nError: " not in f"\n{ran.err}" and "secret" not in said and len(said) < LONGEST
            assert not list(folder.glob("evil*"))
