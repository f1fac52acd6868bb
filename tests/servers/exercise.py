"""Runs Crosscheck against a real server, as its users would, and writes what happened.

    python -m tests.servers.exercise http://127.0.0.1:8101/v1 OUT --model smollm2-135m --key sk-...

Sends a check, five pipelines on ten questions of the demo and each of them again, a prompt that is too long, 32
requests at once, an unknown model, and a wrong key. OUT gets the output of every command, and results.json.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

PIPELINES = ("zero-shot", "native", "rsl-sql", "dac", "sea-sql")
KEY = "SERVER_KEY"
LONG = " ".join(f"value {number} means that the member has {number} books;" for number in range(1500))
"""Evidence of about 30,000 tokens."""


@dataclass
class Step:
    """One command and how it ended."""

    name: str
    code: int
    seconds: float
    facts: dict[str, object]
    message: str


class Exercise:
    """Runs commands in a working folder of its own, and keeps how they ended."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._out: Path = given.out
        self._out.mkdir(parents=True, exist_ok=True)
        self.backbone = self._out / "server.yaml"
        self.steps: list[Step] = []

    def run(self, name: str, *arguments: str, key: str = "") -> Step:
        """Run a command, with --json where it answers with JSON, and note the end of it."""
        home = self._out / "home"
        environment = {**os.environ, "CROSSCHECK_HOME": str(home), KEY: key or self._given.key}
        began = time.monotonic()
        ran = subprocess.run(
            [sys.executable, "-m", "crosscheck", *arguments],
            env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        seconds = round(time.monotonic() - began, 1)
        (self._out / f"{name}.txt").write_text(f"{ran.stdout}\n{ran.stderr}", encoding="utf-8")
        found = _facts(ran.stdout)
        step = Step(name, ran.returncode, seconds, found, " ".join(ran.stderr.split())[-600:])
        if "Traceback" in ran.stdout + ran.stderr:
            step.facts["traceback"] = True
        self.steps.append(step)
        sys.stdout.write(
            f"{name} {step.code} {seconds} s {found} {step.message[-300:] if step.code else ''}\n"
        )
        sys.stdout.flush()
        (self._out / "results.json").write_text(
            json.dumps([asdict(each) for each in self.steps], indent=1), encoding="utf-8"
        )
        return step

    def evaluate(self, name: str, *arguments: str, key: str = "") -> Step:
        """Evaluate on the demo."""
        more = [each for setting in self._given.set for each in ("--set", setting)]
        return self.run(
            name, "evaluate", "--backbone", str(self.backbone), *more, *arguments, "--json", key=key
        )


def _facts(text: str) -> dict[str, object]:
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    if "findings" in content:
        return {each["name"]: each["verdict"] for each in content["findings"]} | {
            "requests": content["requests"], "tokens_per_s": content["tokens_per_s"],
        }  # fmt: skip
    cost = content.get("cost") or {}
    return {
        "score": f"{content.get('correct')}/{content.get('total')}",
        "calls": cost.get("calls"),
        "retryable": content.get("retryable"),
        "degraded": (content.get("degradation") or {}).get("affected"),
        "notes": content.get("notes"),
    }


def exercise(given: argparse.Namespace) -> None:
    """Run the steps that are asked for."""
    ran, few = Exercise(given), ("--limit", "10")
    url = ["--url", given.url, *(["--model", given.model] if given.model else [])]
    url += ["--api-key-env", KEY] if given.key != "none" else []
    steps = given.steps.split(",")
    if "check" in steps:
        ran.backbone.unlink(missing_ok=True)
        ran.run("check-text", "check", *url, "--write", str(ran.backbone))
        ran.run("check", "check", *url, "--json")
    if "pipelines" in steps:
        for pipeline in given.pipelines.split(","):
            ran.evaluate(pipeline, "--pipeline", pipeline, *few, *given.more)
            ran.evaluate(f"{pipeline}-again", "--pipeline", pipeline, *few, *given.more)
    if "long" in steps:
        database = next((ran.backbone.parent / "home").rglob("city_library.sqlite"))
        ran.run(
            "long-prompt", "answer", "How many members are there?", "--evidence", LONG, "--pipeline", "zero-shot",
            "--database", str(database), "--backbone", str(ran.backbone),
        )  # fmt: skip
    if "many" in steps:
        epoch = ("--set", "backbone.epoch=many", "--set", "backbone.concurrency=32")
        ran.evaluate("32-at-once", "--pipeline", "zero-shot", "--limit", "32", *epoch)
    if "wrong" in steps:
        ran.evaluate(
            "unknown-model", "--pipeline", "zero-shot", *few, "--set", "backbone.model=no-such-model"
        )
        if given.key != "none":
            fresh = ("--set", "backbone.epoch=key")
            ran.evaluate("wrong-key", "--pipeline", "zero-shot", *few, *fresh, key="sk-wrong-1234567890")


def main() -> None:
    """Run the exercise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--key", default="none")
    parser.add_argument("--steps", default="check,pipelines,long,many,wrong")
    parser.add_argument("--pipelines", default=",".join(PIPELINES))
    parser.add_argument("--set", action="append", default=[], help="a setting of every evaluation")
    parser.add_argument("--more", nargs="*", default=[], help="further options of the pipelines' evaluations")
    exercise(parser.parse_args())


if __name__ == "__main__":
    main()
