"""The demo's questions, files of predictions for them, and the settings of a model at a fake server."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.fake_openai import FakeOpenAI


def demo_questions(home: Path) -> list[dict[str, Any]]:
    """Return the questions of the demo that is built in a working folder, as its file has them."""
    questions: list[dict[str, Any]] = json.loads(
        (home / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8")
    )
    return questions


def demo_golds(home: Path) -> dict[str, str]:
    """Return the gold SQL of each of them, by its id."""
    return {str(question["question_id"]): question["SQL"] for question in demo_questions(home)}


def write_predictions(file: Path, sqls: Mapping[str, str | None]) -> str:
    """Write SQL by question id as JSON lines; return the file's name."""
    lines = (json.dumps({"question_id": name, "sql": sql}) for name, sql in sqls.items())
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def write_backbone(file: Path, server: FakeOpenAI, **changes: Any) -> str:
    """Write the settings of a backbone at a server; return the file's name."""
    settings = {"model": "m", "base_url": server.base_url, "response_mode": "json_object"}
    file.write_text(yaml.safe_dump(settings | changes), encoding="utf-8")
    return str(file)
