"""`response_mode: auto` against a server that refuses modes as real ones do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from flows.runtime.control import Progress
from tasks.backbone.endpoint import auto_mode
from tasks.backbone.endpoint.auto_mode import KnownEndpoints, find_response_mode
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.wire import identity_of
from tasks.backbone.protocol import Message, Request
from tasks.core.errors import BackboneError, ConfigurationError
from tests.support.fake_openai import Behaviour, Body, error, rate_limit, unauthorized
from tests.tasks.backbone.conftest import Endpoint

REFUSALS = {
    # llama-cpp-python 0.3.36
    "500": error(500, "[{'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text'\"}]"),
    # DeepSeek and Groq, in the form of OpenAI's API reference
    "400": error(400, "This response_format type is unavailable now", type_="invalid_request_error"),
    # a gateway whose model fails without a reason
    "plain 500": error(500, "Internal Server Error"),
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_mode, "FIRST_PAUSE_S", 0.01)


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def known(tmp_path: Path, notes: list[str]) -> KnownEndpoints:
    return KnownEndpoints(tmp_path / "endpoints", notes.append)


def mode_of(body: Body) -> str:
    return str(body.get("response_format", {}).get("type", "text"))


def refuses(*modes: str, how: Behaviour = REFUSALS["400"]) -> Callable[[Body], Behaviour | None]:
    return lambda body: how if mode_of(body) in modes else None


@pytest.mark.parametrize("how", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize(
    ("refused", "mode"),
    [((), "json_schema"), (("json_schema",), "json_object"), (("json_schema", "json_object"), "text")],
)
async def test_the_strictest_mode_that_is_taken_is_found_once(
    endpoint: Endpoint,
    known: KnownEndpoints,
    notes: list[str],
    refused: tuple[str, ...],
    mode: str,
    how: Behaviour,
) -> None:
    endpoint.server.respond = refuses(*refused, how=how)
    found = await find_response_mode(endpoint.settings, known)
    assert found == endpoint.changed(response_mode=mode)
    answered = [each for each in endpoint.server.requests if mode_of(each.body) not in refused]
    assert len(answered) == 1, "one request is paid for"
    assert f"response_mode auto is {mode} for fake-1" in notes[-1] and "which the cost" in notes[-1]
    assert all(f"{name} is refused: HTTP" in notes[-1] for name in refused)

    sent, probes = len(endpoint.server.requests), endpoint.server.probes
    assert await find_response_mode(endpoint.settings, known) == found
    assert (len(endpoint.server.requests), endpoint.server.probes) == (sent, probes), "what was found is kept"
    assert f"response_mode auto is {mode}" in notes[-1] and "which the cost" not in notes[-1]


@pytest.mark.parametrize("first", [True, False])
async def test_two_sessions_say_the_mode_once(endpoint: Endpoint, tmp_path: Path, first: bool) -> None:
    if not first:  # as in a run that goes on after one that ended early
        await find_response_mode(endpoint.settings, KnownEndpoints(tmp_path / "endpoints", Progress().note))
    progress = Progress()
    for _ in range(2):
        await find_response_mode(endpoint.settings, KnownEndpoints(tmp_path / "endpoints", progress.note))
    (note,) = [each for each in progress.notes if "response_mode" in each]
    assert ("which the cost" in note) is first


async def test_each_model_and_endpoint_is_asked_with_the_runs_parameters_and_a_low_limit(
    endpoint: Endpoint, known: KnownEndpoints
) -> None:
    parameters = {"seed": 7, "max_tokens": 2048, "extra_body": {"top_k": 1}}
    for other in ({}, {"model": "other"}, {"base_url": f"{endpoint.settings.base_url}?v=2"}):
        await find_response_mode(endpoint.changed(**parameters, **other), known)
    names = ("model", "seed", "max_tokens", "top_k")
    sent = [[each.body[name] for name in names] for each in endpoint.server.requests]
    assert sent == [["fake-1", 7, 16, 1], ["other", 7, 16, 1], ["fake-1", 7, 16, 1]]


USED_UP = "Could not finish the message because max_tokens or model output limit was reached."


@pytest.mark.parametrize("answers", [
    pytest.param([rate_limit(), error(503, "Loading model")], id="busy"),
    pytest.param([error(500, "Internal Server Error")] * auto_mode.TRIES, id="an error that ends"),
    pytest.param([error(400, USED_UP, type_="invalid_request_error")], id="thoughts use up the low limit"),
])  # fmt: skip
async def test_what_refuses_no_mode(
    endpoint: Endpoint, known: KnownEndpoints, notes: list[str], answers: list[Behaviour]
) -> None:
    endpoint.server.script(*answers)
    assert (await find_response_mode(endpoint.settings, known)).response_mode == "json_schema"
    assert "response_mode auto is json_schema" in notes[-1]


async def test_what_every_mode_refuses_names_the_setting(endpoint: Endpoint, known: KnownEndpoints) -> None:
    message = "Unsupported parameter: 'temperature' is not supported with this model."
    endpoint.server.always(error(400, message))
    with pytest.raises(ConfigurationError, match=r"set backbone.temperature=null") as refused:
        await find_response_mode(endpoint.settings, known)
    assert 'Backbone "fake" (fake-1 at http://127.0.0.1' in str(refused.value)
    assert known.find(endpoint.settings) is None


async def test_a_wrong_key_ends_it_after_one_request(endpoint: Endpoint, known: KnownEndpoints) -> None:
    endpoint.server.always(unauthorized("sk-test-1234567890abcdef"))
    with pytest.raises(ConfigurationError, match="FAKE_API_KEY is not accepted") as refused:
        await find_response_mode(endpoint.settings, known)
    assert len(endpoint.server.requests) == 1 and "abcdef" not in str(refused.value)


async def test_an_absent_endpoint_can_be_tried_again(endpoint: Endpoint, known: KnownEndpoints) -> None:
    gone = endpoint.changed(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(BackboneError, match="Is the endpoint up") as error_:
        await find_response_mode(gone, known)
    assert error_.value.transient and error_.value.fatal
    named = gone.model_copy(update={"response_mode": "text"})
    assert await find_response_mode(named, known) == named, "its replies may all be cached"


@pytest.mark.parametrize("status", [400, 500])
async def test_a_model_without_a_system_role_is_found_and_gets_its_instructions_from_the_user(
    endpoint: Endpoint, known: KnownEndpoints, notes: list[str], status: int
) -> None:
    """As the chat template of Gemma 2 has it; vLLM passes the template's message on, other servers only HTTP 500."""
    message = "System role not supported" if status == 400 else "Internal Server Error"
    endpoint.server.respond = lambda body: (
        error(status, message) if body["messages"][0]["role"] == "system" else None
    )
    found = await find_response_mode(endpoint.settings, known)
    assert (found.response_mode, found.system_role) == ("json_schema", False)
    assert "which has no system role" in notes[-1]
    assert await find_response_mode(endpoint.settings, known) == found, "what was found is kept"
    request = Request(
        (Message("system", "Write SQL."), Message("user", "How many?"), Message("assistant", "1"))
    )
    async with EndpointBackbone(found) as backbone:
        await backbone.complete(request)
    sent = endpoint.server.requests[-1].body["messages"]
    assert sent == [
        {"role": "user", "content": "Write SQL.\n\nHow many?"},
        {"role": "assistant", "content": "1"},
    ]
    assert "system_role" not in identity_of(endpoint.settings) and identity_of(found)["system_role"] is False


async def test_without_auto_the_refusal_names_the_setting_of_the_system_role(endpoint: Endpoint) -> None:
    endpoint.server.always(error(400, "System role not supported"))
    async with endpoint.open(response_mode="text") as backbone:
        with pytest.raises(BackboneError, match=r"backbone\.system_role=false") as refused:
            await backbone.complete(Request((Message("system", "Write SQL."), Message("user", "How many?"))))
    assert refused.value.fatal and len(endpoint.server.requests) == 1
