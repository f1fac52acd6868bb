"""`crosscheck check` against a server that refuses as real ones do, and the evaluation with the settings that it finds.

The refusals are those of OpenAI's API reference (error objects with code and param) and of llama-cpp-python 0.3.36.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import answer_as_offline
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_anthropic import fake_anthropic
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, error, prompt_of, unauthorized
from tests.support.fake_responses import fake_responses
from tests.support.http_server import Handler, send, serving

__all__ = ["fake_anthropic", "fake_responses"]

Run = Callable[..., Ran]

LLAMA_REFUSES = (
    "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or "
    "'json_object'\", 'input': 'json_schema'}]"
)
"""What llama-cpp-python answers, with status 500, to a response format that it does not know."""


@pytest.fixture
def server(fake_openai: FakeOpenAI) -> FakeOpenAI:
    """A server with one model, which answers as the offline backbone does."""
    fake_openai.models = 200
    fake_openai.listed = [{"id": "tiny-coder", "max_model_len": 8192}]
    fake_openai.answer = answer
    fake_openai.always(Behaviour(usage={"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}))
    return fake_openai


def answer(body: Body) -> str:
    if "### " in prompt_of(body):
        messages = body.get("messages") or body["input"]
        turns = [{"role": each["role"], "content": prompt_of({"messages": [each]})} for each in messages]
        return answer_as_offline({**body, "messages": turns})
    return json.dumps({"sql": "SELECT name FROM customer", "tables": ["customer"], "columns": ["name"]})


def findings(ran: Ran) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["verdict"], each["detail"]) for each in json.loads(ran.out)["findings"]}


def check(run_here: Run, server: FakeOpenAI, *more: str) -> Ran:
    return run_here("check", "--url", server.base_url, "--parallel", "2", *more)


def test_a_server_that_takes_everything_gets_the_strictest_settings_and_a_reply_that_fits_its_context(
    run_here: Run, server: FakeOpenAI
) -> None:
    ran = check(run_here, server, "--json")
    assert ran.code == 0, ran.err
    found = findings(ran)
    assert [
        found[name][0] for name in ("reachable", "model", "max_tokens", "json_schema", "json_object")
    ] == ["yes"] * 5
    assert found["models"] == ("yes", "tiny-coder") and found["context length"] == ("yes", "8,192 tokens")
    assert found["price"][0] == "no"
    settings = json.loads(ran.out)["settings"]
    assert settings["model"] == "tiny-coder" and settings["response_mode"] == "json_schema"
    assert settings["context_tokens"] == 8192 and settings["max_tokens"] == 2048 and "prices" not in settings
    server.listed = [{"id": "tiny-coder", "max_model_len": 4096}]
    settings = json.loads(check(run_here, server, "--json").out)["settings"]
    assert settings["max_tokens"] == 1024, "else a prompt of 2,049 tokens would be refused"


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        (
            "max_tokens is too large: {}. This model supports at most 1024 completion tokens, whereas you provided {}.",
            1024,
        ),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 1024]", 1024),
        ("integer above maximum value, expected a value <= 1,000, but got {} instead", 1000),
        ("max_tokens is limited for this model", 512),
    ],
    ids=["OpenAI", "DeepSeek", "Volcano Engine", "without a number"],
)
def test_the_longest_reply_is_one_that_the_model_takes(
    run_here: Run, server: FakeOpenAI, message: str, limit: int
) -> None:
    """Errors of these endpoints, as their users quote them (for example NextChat's issue 3195, DeepSeek-V3's 69)."""
    server.respond = lambda body: (
        error(400, message.format(*[body["max_tokens"]] * 2), param="max_tokens")
        if body.get("max_tokens", 0) > limit
        else None
    )
    ran = check(run_here, server, "--json")
    assert json.loads(ran.out)["settings"]["max_tokens"] == limit, ran.out
    assert findings(ran)["longest reply"][1].startswith(f"{limit:,} tokens: HTTP 400")


def test_one_of_several_models_is_not_chosen_without_a_word(run_here: Run, server: FakeOpenAI) -> None:
    server.listed = [{"id": f"model-{number}"} for number in range(12)]
    first = findings(check(run_here, server, "--json"))
    assert first["models"][1].startswith(
        "only the first of 12 is checked, --model names another: model-0, model-1"
    )
    assert first["models"][1].endswith("model-7 and 4 more")
    named = findings(check(run_here, server, "--model", "model-3", "--json"))
    assert named["models"][1].startswith("model-0, model-1") and named["model"][1] == "model-3"


def standard_library(request: Handler, body: bytes) -> None:
    """Answer as a model behind Python's own HTTP server, which closes connections without saying so."""
    message = {"role": "assistant", "content": '{"sql": "SELECT 1", "tables": [], "columns": []}'}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    reply = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}
    known = request.command == "POST" or request.path == "/v1/models"
    content = reply if request.command == "POST" else {"data": [{"id": "tiny-coder"}]}
    send(request, json.dumps(content).encode(), 200 if known else 404)


def test_a_server_that_closes_a_connection_without_saying_so_is_usable_by_its_whole_address(
    run_here: Run, tmp_path: Path
) -> None:
    with serving(standard_library, "HTTP/1.1") as url:
        ran = run_here("check", "--url", f"{url}/v1", "--parallel", "2", "--json")
        assert ran.code == 0, ran.out + ran.err
        assert findings(ran)["model"][0] == findings(ran)["json_schema"][0] == "yes"
        ran = run_here("check", "--url", url, "--json")
        assert ran.code == 1 and f"name {url}/v1" in findings(ran)["model"][1]
        ran = run_here("check", "--url", url, "--write", str(tmp_path / "none" / "my.yaml"))
        ran.assert_refused("there is no folder")


def test_what_it_costs_is_what_the_server_was_sent_and_unstated_usage_is_named(
    run_here: Run, server: FakeOpenAI
) -> None:
    ran = json.loads(check(run_here, server, "--json").out)
    assert ran["requests"] == len(server.requests)
    assert (ran["input_tokens"], ran["output_tokens"]) == (9 * ran["requests"], 3 * ran["requests"])
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cache_write_tokens": 2}}
    server.always(Behaviour(usage=usage))
    verdict, detail = findings(check(run_here, server, "--json"))["usage"]
    assert verdict == "yes"
    assert detail == "input, output, cache write; not stated: cached input, reasoning, cost"


def refuses_as_llama_does(body: Body) -> Behaviour | None:
    kind = body.get("response_format", {}).get("type")
    return error(500, LLAMA_REFUSES) if kind == "json_schema" else None


def refuses_as_reasoning_models_do(body: Body) -> Behaviour | None:
    if "max_tokens" in body:
        message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        return error(400, message, code="unsupported_parameter", type_="invalid_request_error")
    if body.get("temperature") == 0.0:
        return error(400, "Unsupported value: 'temperature' does not support 0.0.", code="unsupported_value")
    return None


def refuses_as_gemma_does(body: Body) -> Behaviour | None:
    """As the chat template of Gemma 2, whose message vLLM passes on."""
    system = body["messages"][0]["role"] == "system"
    return error(400, "System role not supported", type_="BadRequestError") if system else None


@pytest.mark.parametrize(
    ("respond", "wanted"),
    [
        (refuses_as_gemma_does, {"system_role": False, "response_mode": "json_schema"}),
        (refuses_as_llama_does, {"response_mode": "json_object", "max_tokens": 2048, "temperature": 0.0}),
        (refuses_as_reasoning_models_do, {"max_completion_tokens": 2048, "temperature": None, "seed": 0}),
    ],
)
def test_what_is_refused_is_in_the_table_and_not_in_the_settings(
    run_here: Run, server: FakeOpenAI, respond: Callable[[Body], Behaviour | None], wanted: dict[str, Any]
) -> None:
    server.respond = respond
    ran = check(run_here, server, "--json")
    assert ran.code == 0, ran.err
    settings = json.loads(ran.out)["settings"]
    assert {name: settings[name] for name in wanted} == wanted
    assert not {"max_tokens", "max_completion_tokens"} <= settings.keys()
    refused = {name: detail for name, (verdict, detail) in findings(ran).items() if verdict == "no"}
    assert any(detail.startswith("HTTP ") for detail in refused.values())


def test_the_written_file_evaluates(run_here: Run, server: FakeOpenAI, tmp_path: Path) -> None:
    server.respond = refuses_as_reasoning_models_do
    file = tmp_path / "tiny.yaml"
    ran = check(run_here, server, "--write", str(file))
    assert ran.code == 0 and f"crosscheck evaluate --backbone {file}" in ran.out, ran.err
    sent = len(server.requests)
    ran = run_here(
        "answer", "How many members are there?", "--backbone", str(file), "--pipeline", "zero-shot",
        "--database", str(next((tmp_path / "home").rglob("city_library.sqlite"))),
    )  # fmt: skip
    assert ran.code in (0, 1), ran.err
    (body,) = [received.body for received in server.requests[sent:]]
    assert body["max_completion_tokens"] == 2048 and "temperature" not in body
    again = check(run_here, server, "--write", str(file))
    assert again.code == 2 and "exists" in again.err


def test_a_wrong_key_an_unknown_model_and_an_endpoint_that_is_not_there_end_after_one_request(
    run_here: Run, server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-wrong-key-1234567890")
    server.respond = lambda body: unauthorized("sk-wrong-key-1234567890")
    ran = check(run_here, server, "--api-key-env", "MY_KEY", "--json")
    assert ran.code == 1 and findings(ran)["key"][0] == "no" and len(server.requests) == 1
    assert "sk-wrong" not in ran.out + ran.err and json.loads(ran.out)["settings"] == {}
    server.respond = lambda body: error(404, "The model `x` does not exist", code="model_not_found")
    ran = check(run_here, server, "--model", "x")
    assert ran.code == 1 and "does not exist" in ran.out and "cannot be used" in ran.out
    ran = run_here("check", "--url", "http://127.0.0.1:9/v1", "--json")
    assert ran.code == 1 and findings(ran)["reachable"][0] == "no"


def test_tools_and_text_are_probed_with_the_schema_of_a_stage(run_here: Run, server: FakeOpenAI) -> None:
    arguments = json.dumps({"tables": ["customer"], "columns": ["name"]})
    call = {"id": "1", "type": "function", "function": {"name": "reply", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    server.respond = lambda body: Behaviour(choice={"message": message}) if "tools" in body else None
    assert findings(check(run_here, server, "--json"))["tools"][0] == "yes"
    (sent,) = [
        received.body["tools"][0]["function"] for received in server.requests if "tools" in received.body
    ]
    assert list(sent["parameters"]["properties"]) == ["tables", "columns"]

    server.answer = lambda body: "I cannot tell."
    server.respond = lambda body: None
    refused = findings(check(run_here, server, "--json"))
    assert refused["text"] == ("no", "accepted, but not followed")
    assert refused["tools"] == ("unknown", "accepted, but not called")


def test_a_reasoning_model_that_needs_more_than_the_low_limit_is_given_more(
    run_here: Run, server: FakeOpenAI
) -> None:
    """The message is OpenAI's to a reasoning model that has used up its tokens before it answers."""
    message = "Could not finish the message because max_tokens or model output limit was reached."
    server.respond = lambda body: error(400, message) if body.get("max_tokens", 4096) < 1000 else None
    ran = check(run_here, server, "--json")
    assert ran.code == 0, ran.out
    found = findings(ran)
    assert found["max_tokens"][0] == "yes" and found["model"][0] == "yes"


@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
def test_the_replies_of_a_model_that_thinks_have_the_form_that_was_asked_for(
    run_here: Run, server: FakeOpenAI, field: str
) -> None:
    """DeepSeek and vLLM pass on the thoughts in a field of their own, and servers without a parser in the text."""

    def respond(body: Body) -> Behaviour:
        if field == "content":
            return Behaviour(content=f"<think>\nHm.\n</think>\n\n{answer(body)}")
        return Behaviour(choice={"message": {"role": "assistant", "content": answer(body), field: "Hm."}})

    server.respond = respond
    ran = check(run_here, server, "--json")
    assert findings(ran)["json_schema"] == ("yes", "")
    assert json.loads(ran.out)["settings"]["response_mode"] == "json_schema"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fake"), [
    ("openai-responses", "fake_responses"), ("anthropic", "fake_anthropic")
])  # fmt: skip
def test_the_settings_that_are_found_for_another_protocol_evaluate(
    request: pytest.FixtureRequest, demo: CommandLine, tmp_path: Path, kind: str, fake: str
) -> None:
    server: FakeOpenAI = request.getfixturevalue(fake)
    server.models, server.answer = 200, answer
    file, found = tmp_path / "mine.yaml", tmp_path / "found.yaml"
    file.write_text(f"kind: {kind}\nmodel: m-1\nbase_url: {server.base_url}\ntemperature: null\n")
    checked = demo.run("check", str(file), "--parallel", "1", "--write", str(found))
    assert checked.code == 0, checked.err
    assert f"kind: {kind}" in found.read_text()
    server.requests = []
    for _ in range(2):
        ran = demo.run("evaluate", "--backbone", str(found), "--pipeline", "zero-shot", "--limit", "4")
        assert ran.code == 0, ran.err
        assert len(server.requests) == 4, "nothing is bought twice"
