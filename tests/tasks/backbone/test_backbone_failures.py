"""What an endpoint's "no" is taken for, and that secrets do not get through."""

import json
import time

import pytest

from tasks.backbone.endpoint.failures import refusal_of, retry_after, scrub


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, {"message": "Rate limit reached", "code": "rate_limit_exceeded"}, "rate_limit"),
        (429, {"message": "You exceeded your current quota", "code": "insufficient_quota"}, "quota"),
        (429, {"message": "You exceeded your current quota", "type": "insufficient_quota"}, "quota"),
        (429, {"message": "You exceeded your current quota, check your billing details"}, "quota"),
        (429, {"message": "You exceeded your current quota. Please retry in 34.07s."}, "rate_limit"),
        (402, {"message": "Insufficient Balance"}, "quota"),
        (400, {"message": "Your credit balance is too low to access the API"}, "quota"),
        (400, {"message": "bad value: what is the billing address of each client?"}, "request"),
        (401, {"message": "Incorrect API key provided", "code": "invalid_api_key"}, "access"),
        (403, {"message": "Project does not have access to model gpt-9"}, "access"),
        (403, {"message": "Your input was flagged by moderation"}, "request"),
        (404, {"message": 'model "x" not found, try pulling it first'}, "access"),
        (405, {}, "access"),
        (400, {"message": "Model Not Exist"}, "access"),
        (400, {"message": "no", "code": "unsupported_parameter", "param": "max_tokens"}, "settings"),
        (400, {"message": "no", "param": "response_format.json_schema"}, "settings"),
        (400, {"message": "`temperature` is not supported by this model"}, "settings"),
        (400, {"message": "Unrecognized request argument supplied: temperature"}, "settings"),
        (400, {"message": "temperature must be 1 with thinking"}, "settings"),
        (422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}, "settings"),
        (400, {"message": "1 validation error: seed: extra inputs are not permitted"}, "settings"),
        (400, {"message": "bad prompt, must be shorter: what is the mean temperature of May?"}, "request"),
        (400, {"message": "max_tokens is too large: this model's maximum context length is 9"}, "request"),
        (400, {"message": "no", "code": "unsupported_value", "param": "messages"}, "request"),
        (400, {"message": "too long", "code": "context_length_exceeded"}, "request"),
        (408, {}, "server"),
        (409, {}, "server"),
        (413, {}, "request"),
        (422, {"message": "invalid body"}, "request"),
        (500, {}, "server"),
        (500, {"message": "the field 'seed' must be an integer"}, "settings"),
        (500, {"message": "[{'loc': ('body', 'response_format', 'type'), 'msg': 'no'}]"}, "settings"),
        (429, {"message": "no", "param": "max_tokens"}, "settings"),
        (500, {"message": "model 'x' not found"}, "access"),
        (400, {"message": "Server is pinned to 'a'; requested 'b'."}, "access"),
        (422, {"message": "Unexpected fields in the request: {'seed'}"}, "settings"),
        (500, {"message": "the request exceeds the available context size"}, "request"),
        (
            429,
            {"message": "This request would exceed your limit: lower 'max_tokens', it must fit"},
            "rate_limit",
        ),
        (498, {"message": "Flex tier capacity exceeded"}, "rate_limit"),
        (424, {"message": "Request failed during generation"}, "server"),
        (425, {"message": "Too early: max_tokens must be lower now"}, "server"),
        (400, {"message": "Invalid value: the field 'top_k' of the data must be a number"}, "request"),
        (400, {"message": "[{'loc': ('body', 'messages', 0), 'input': {'temperature': 0.0}}]"}, "request"),
        (503, {"message": "model 'x' not found on a worker that is free, try later"}, "server"),
        (503, {"message": "overloaded"}, "server"),
        (529, {"message": "overloaded"}, "server"),
        # money: LiteLLM, Anthropic, SiliconFlow, xAI, OpenRouter, Fireworks, Cohere
        (400, {"message": "Budget has been exceeded! Current cost: 10.1, Max budget: 10.0"}, "quota"),
        (400, {"message": "You have reached your specified API usage limits."}, "quota"),
        (403, {"message": "Sorry, your account balance is insufficient"}, "quota"),
        (403, {"message": "Your newly created team doesn't have any credits yet."}, "quota"),
        (429, {"message": "Your team has reached its monthly spending limit."}, "quota"),
        (403, {"message": "Key limit exceeded (total limit)."}, "quota"),
        (412, {"message": "Suspended, possibly due to reaching the monthly spending limit"}, "quota"),
        (429, {"message": "You are using a Trial key, limited to 1000 API calls / month."}, "quota"),
        (429, {"message": "Your team is at its monthly spending limit. Retry in 3s."}, "rate_limit"),
        # money: OpenAI's page "Error codes", Anthropic's "Errors", Groq's "Spend Limits", Ollama Cloud
        (429, {"message": "no", "code": "credit_balance_exhausted"}, "quota"),
        (429, {"message": "no", "code": "organization_spend_limit_exceeded"}, "quota"),
        (429, {"message": "no", "code": "project_spend_limit_exceeded"}, "quota"),
        (429, {"message": "no", "code": "organization_usage_limit_exceeded"}, "quota"),
        (429, {"message": "Slow down", "code": "slow_down", "type": "rate_limit_error"}, "rate_limit"),
        (
            429,
            {
                "type": "rate_limit_error",
                "message": "no",
                "details": {"error_code": "enforced_spend_limit_reached"},
            },
            "quota",
        ),
        (400, {"message": "You have reached your specified workspace API usage limits."}, "quota"),
        (400, {"message": "no", "code": "blocked_api_access"}, "quota"),
        (
            429,
            {"message": "you (me) have reached your weekly usage limit, upgrade for higher limits"},
            "quota",
        ),
        # limits of a day: Amazon Bedrock, Kimi; Groq's and OpenAI's say when to come back
        (429, {"message": "Too many tokens per day, please wait before trying again."}, "quota"),
        (429, {"message": "Your account request reached TPD rate limit, current: 9, limit: 8"}, "quota"),
        (
            429,
            {"message": "Rate limit reached on tokens per day (TPD): Limit 9. Please try again in 7m12s."},
            "rate_limit",
        ),
        (400, {"message": "cannot read: how many requests per day were there?"}, "request"),
        # OpenRouter, pages "Limits" and "Errors and Debugging"; Together, page "Error codes"
        (403, {"message": "Budget limit exceeded", "code": 403}, "quota"),
        (403, {"message": "Request blocked: prompt injection patterns detected", "code": 403}, "request"),
        (403, {"message": "Input token count + max_tokens must be less than the context length"}, "request"),
        # models without the role "system": Gemma 3 at Google, o1-mini
        (400, {"message": "Developer instruction is not enabled for models/gemma-3-27b-it"}, "settings"),
        (400, {"message": "'messages[0].role' does not support 'system' with this model."}, "settings"),
        # keys and models: xAI, Mistral, Amazon Bedrock, LM Studio, Hugging Face
        (400, {"message": "Incorrect API key provided: xa***."}, "access"),
        (400, {"message": "Invalid model: foo"}, "access"),
        (400, {"message": "The provided model identifier is invalid."}, "access"),
        (400, {"message": "Invocation of model ID a.b with on-demand throughput isn't supported."}, "access"),
        (400, {"message": "No models loaded. Please load a model."}, "access"),
        (400, {"message": "The requested model 'x' is not supported by any provider"}, "access"),
        (400, {"message": "Model unloaded."}, "server"),
        (400, {"message": "The model has crashed without additional information."}, "server"),
        # schemas: vLLM, llama.cpp
        (400, {"message": "Grammar error: Invalid JSON schema"}, "settings"),
        (400, {"message": "Failed to parse grammar"}, "settings"),
        # OpenAI: more tokens than a minute has
        (
            429,
            {"message": "Request too large for gpt-4o on tokens per min (TPM): Limit 3, Requested 4."},
            "request",
        ),
    ],
)
def test_an_answer_is_taken_for_what_it_means(status: int, error: dict[str, str], kind: str) -> None:
    changes = dict.fromkeys(("temperature", "seed", "max_tokens", "response_format"), "set it to null")
    assert refusal_of(status, {}, json.dumps({"error": error}), None, changes).kind == kind


@pytest.mark.parametrize("message", [
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)",
    "Prompt exceeds max length",
    "InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
    "length of prompt_tokens (40000) must be less than max_seq_len (32768).",
    "Please reduce the length of the messages or completion.",
    "Request payload size exceeds the limit: 20971520 bytes.",
    "Prompt length (5000) exceeds max_prompt_len (4096)",
    "prompt token count of 130000 exceeds the limit of 128000",
    "Total tokens of image and text exceed max message tokens",
])  # fmt: skip
def test_a_prompt_that_is_too_long_is_to_be_shorter(message: str) -> None:
    """Messages of vLLM, xAI, Kimi, Z.AI, DashScope and SiliconFlow."""
    refusal = refusal_of(
        400, {}, json.dumps({"error": {"message": message}}), None, {"max_tokens": "lower it"}
    )
    assert refusal.kind == "request" and "exceeds the model's context" in refusal.advice


@pytest.mark.parametrize(
    "body", ["", "<html>", "null", "[]", "42", '{"error": "text"}', '[{"error": {"code": 1}}]', "[" * 9999]
)
def test_any_body_can_be_read(body: str) -> None:
    refusal = refusal_of(500, {}, body, None, {})
    assert refusal.kind == "server" and refusal.message.startswith("HTTP 500")


@pytest.mark.parametrize(("status", "title", "said", "advice"), [
    (502, "502 Bad Gateway", "HTTP 502: 502 Bad Gateway", ""),
    (403, "Attention Required! | Cloudflare", "HTTP 403: Attention Required! | Cloudflare", "page of a firewall"),
])  # fmt: skip
def test_a_page_is_named_by_its_title(status: int, title: str, said: str, advice: str) -> None:
    """Pages of nginx, and of Cloudflare's firewall, which may refuse a prompt for the SQL in it."""
    page = f"<!DOCTYPE html>\n<html>\n<head><title>{title}</title></head>\n<body><p>Ray ID</p></body></html>"
    refusal = refusal_of(status, {}, page, "MY_KEY", {})
    assert refusal.message == said
    assert advice in refusal.advice and "MY_KEY" not in refusal.advice


def test_a_long_message_is_cut_and_on_one_line() -> None:
    message = refusal_of(500, {}, "line\n" * 1000, None, {}).message
    assert len(message) < 400 and "\n" not in message


@pytest.mark.parametrize(("headers", "message", "seconds"), [
    ({"retry-after": "20"}, "", 20.0),
    ({"retry-after": "0.5"}, "", 0.5),
    ({"retry-after-ms": "250", "retry-after": "1"}, "", 0.25),
    ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, "", 60.0),
    ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, "", 0.0),
    ({"retry-after": "-5"}, "", 0.0),
    ({"retry-after": "soon"}, "", None),
    ({}, "Please try again in 20ms.", 0.02),
    ({}, "Please try again in 6m0s.", 360.0),
    ({}, "Please retry in 34.07s.", 34.07),
    ({}, "try again in a minute", None),
    # Azure, GitHub Models, Gemini, and Gemini behind LiteLLM
    ({}, "have exceeded token rate limit. Please retry after 43 seconds.", 43.0),
    ({}, "for UserByModelByDay. Please wait 43200 seconds before retrying.", 43200.0),
    ({}, '[{"error": {"details": [{"@type": "a/google.rpc.RetryInfo", "retryDelay": "31s"}]}}]', 31.0),
    ({}, r'{"error": {"message": "b\'{ \\"retryDelay\\": \\"24.5s\\"}\'"}}', 24.5),
    # OpenRouter
    ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "100000"}, "", 60.0),
    ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "100000"}, "", None),
    ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "later"}, "", None),
    ({"x-ratelimit-remaining": "0"}, "", None),
    ({}, "", None),
])  # fmt: skip
def test_the_time_to_come_back_is_read_where_it_is_said(
    headers: dict[str, str], message: str, seconds: float | None
) -> None:
    found = retry_after(headers, message, now=40.0)
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_a_402_with_a_time_to_wait_is_a_rate_limit() -> None:
    """OpenRouter's in-flight spending budget (page "Limits"): there is money, but for fewer requests at once."""
    metadata = {"limit_source": "openrouter_in_flight_budget"}
    body = json.dumps({"error": {"message": "Too much is in flight", "code": 402, "metadata": metadata}})
    refusal = refusal_of(402, {"retry-after": "5"}, body, None, {})
    assert (refusal.kind, refusal.retry_after_s) == ("rate_limit", 5.0)
    assert refusal_of(402, {}, body, None, {}).kind == "quota"


def test_a_limit_of_the_day_says_when_it_ends() -> None:
    """The body is that of OpenRouter for a free model."""
    reset = time.time() + 3600
    headers = {
        "X-RateLimit-Limit": "50",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": f"{reset * 1000:.0f}",
    }
    message = (
        "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day"
    )
    body = json.dumps({"error": {"message": message, "code": 429, "metadata": {"headers": headers}}})
    refusal = refusal_of(429, {}, body, None, {})
    assert (refusal.kind, refusal.retry_after_s) == ("rate_limit", pytest.approx(3600, abs=60))


@pytest.mark.parametrize(("text", "clean"), [
    ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
    ("key sk-proj-abcDEF123_x given", "key *** given"),
    ("key sk-ab**********yz given", "key *** given"),
    ("http://me:pw@host/v1 is down", "http://***@host/v1 is down"),
    ("task-force, risk-averse", "task-force, risk-averse"),
])  # fmt: skip
def test_what_looks_like_a_key_is_taken_out(text: str, clean: str) -> None:
    assert scrub(text) == clean


@pytest.mark.parametrize("value", ["1e400", "nan", "-inf", "99999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_implausible_retry_after_counts_as_none(value: str) -> None:
    assert retry_after({"retry-after": value}) is None
