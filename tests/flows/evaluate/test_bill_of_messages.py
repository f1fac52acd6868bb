"""A run through Anthropic's protocol against a provider that keeps its own ledger."""

import json
import threading
from pathlib import Path

import pytest

from tests.flows.conftest import answer_as_offline
from tests.support.command_line import CommandLine
from tests.support.fake_anthropic import FakeAnthropic
from tests.support.fake_openai import Behaviour, Body, prompt_of

LEAST = 64
"""Tokens from which on a beginning is kept. Anthropic's models need more than the demo's schemas have."""
PRICES = {"input": 2.0, "cached_input": 0.2, "cache_write": 2.5, "output": 10.0, "as_of": "2026-11-01"}


class Provider(FakeAnthropic):
    """The fake with a prompt cache as the page "Prompt caching" describes it, without its end after five minutes.

    What stands before the last block with `cache_control` is read from the cache if it was there, else written to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()
        self.ledger = dict.fromkeys(("input", "cached_input", "cache_write", "output"), 0)
        self.lock = threading.Lock()
        self.answer = self.answered

    @staticmethod
    def answered(body: Body) -> str:
        turns = [
            {"role": each["role"], "content": prompt_of({"messages": [each]})} for each in body["messages"]
        ]
        return answer_as_offline(body | {"messages": [{"role": "system", "content": body["system"]}, *turns]})

    def _reply(self, how: Behaviour, body: Body) -> Body:
        reply = super()._reply(how, body)
        beginning, whole = "", body["system"]
        for message in body["messages"]:
            content = message["content"]
            for block in [{"text": content}] if isinstance(content, str) else content:
                whole += block["text"]
                beginning = whole if "cache_control" in block else beginning
        kept = len(beginning) // 4 if len(beginning) // 4 >= LEAST else 0
        with self.lock:
            seen = beginning in self.known
            counted = {
                "input": len(whole) // 4 - kept,
                "cached_input": kept if seen else 0,
                "cache_write": 0 if seen else kept,
                "output": reply["usage"]["output_tokens"],
            }
            if kept:
                self.known.add(beginning)
            self.ledger = {name: self.ledger[name] + tokens for name, tokens in counted.items()}
        reply["usage"] |= {
            "input_tokens": counted["input"],
            "cache_read_input_tokens": counted["cached_input"],
            "cache_creation_input_tokens": counted["cache_write"],
        }
        return reply


@pytest.mark.slow
def test_the_bill_is_the_providers_ledger_to_the_token(demo: CommandLine, tmp_path: Path) -> None:
    with Provider() as server:
        (file := tmp_path / "claude.yaml").write_text(
            f"kind: anthropic\nmodel: m-1\nbase_url: {server.base_url}\nresponse_mode: json_schema\n"
            f"prices: {json.dumps(PRICES)}\nconcurrency: 4\n"
        )
        ran = demo.run(
            "evaluate", "--backbone", str(file), "--pipeline", "rsl-sql", "--limit", "12", "--json"
        )
    assert ran.code == 0, ran.err
    cost, ledger = json.loads(ran.out)["cost"], server.ledger
    assert cost["input_tokens"] == ledger["input"] + ledger["cached_input"] + ledger["cache_write"]
    assert (cost["cached_input_tokens"], cost["output_tokens"]) == (ledger["cached_input"], ledger["output"])
    assert cost["cost_usd"] == pytest.approx(
        sum(ledger[name] * float(str(PRICES[name])) for name in ledger) / 1e6
    )
    assert ledger["cached_input"] > 2 * ledger["cache_write"] > 0, "what is written is read again"
