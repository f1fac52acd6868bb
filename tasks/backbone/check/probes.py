"""The probes, in the order in which they are sent: later ones use what earlier ones found."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from tasks.backbone.check.endpoint import Endpoint, Sent
from tasks.backbone.check.listing import listed_models, stated_context
from tasks.backbone.check.long_prompts import SQL_TEXT, refused_length
from tasks.backbone.check.report import EndpointReport
from tasks.backbone.check.requests import LONG, SHORT, ProbeRequests
from tasks.backbone.endpoint.formats.identity import OPENAI_URL, public_url
from tasks.backbone.pricing import cost, prices_for
from tasks.backbone.replies.json_schema import reply_schema
from tasks.backbone.replies.reading import read_reply
from tasks.core.errors import BackboneError
from tasks.core.outcome import Usage
from tasks.core.wording import counted

HELLO = "Reply with the single word: ready."
STORY = "Count from 1 to 60 in words, separated by commas."
LEVELS = (1, 2, 4, 8, 16, 32)
"""Numbers of requests at once, up to the one that is asked for."""
GAIN, MEASURABLE_S = 1.15, 0.2
"""Factor by which more requests at once must be faster, and seconds from which their time says something."""
IN_PARTS = 0.1
"""Share of the time of a streamed reply that lies behind its first part, unless its parts arrive at once."""
TOOLS = "tools"
"""Name of the finding whether a reply can be requested as the arguments of a tool."""
USAGE = ("input", "output", "cached_input", "cache_write", "reasoning")


class Probes:
    """Probes of one endpoint, which fill a report."""

    def __init__(self, endpoint: Endpoint, step: Callable[[str], None]) -> None:
        """Prepare the probes; `step` is called with what is probed next."""
        self._endpoint = endpoint
        self._settings = endpoint.settings
        self._step = step
        url = public_url(self._settings.base_url or OPENAI_URL)
        self.report = EndpointReport(url=url, model=self._settings.model)
        self._requests = ProbeRequests(endpoint, self.report)

    async def run(self, reply_types: Mapping[str, type[BaseModel]], parallel: int) -> EndpointReport:
        """Send the probes.

        Args:
            reply_types: types of the replies of some stages, by the name of the stage.
            parallel: largest number of requests at once.
        """
        self._step("GET /models")
        if await self._models():
            self._step("a first request")
            if await self._model():
                self._step("sampling parameters")
                await self._sampling()
                self._step("reply modes")
                await self._modes(reply_types)
                await self._counting()
                self._step("speed")
                await self._speed()
                await self._parallel(parallel)
        return self.report

    async def finish(self) -> None:
        """Send what may keep the endpoint busy, and report the cost of all requests."""
        if self.report.usable:
            await self._context()
        self._bill()

    async def _models(self) -> bool:
        """Probe whether the endpoint can be reached, and which models it lists."""
        report = self.report
        try:
            found = await self._endpoint.models()
            lacks_v1 = found.status == 404 and (await self._endpoint.models("v1/models")).status == 200
        except BackboneError as error:
            report.add("reachable", False, str(error))
            return False
        report.add("reachable", True, f"GET /models: HTTP {found.status}")
        if found.status in (401, 403):
            report.add("key", False, f"HTTP {found.status}. Check the key.")
            return False
        if lacks_v1:
            report.add("model", False, f"the base URL lacks /v1: name {report.url}/v1")
            return False
        listed = listed_models(found)
        report.models = [str(each["id"]) for each in listed]
        report.add("models", bool(listed) or "unknown", ", ".join(report.models[:8]) or "none listed")
        if not report.model and report.models:
            report.model = report.models[0]
        if not report.model:
            report.add("model", False, "the endpoint lists none: name one with --model")
            return False
        report.context_tokens = stated_context(listed, report.model)
        return True

    async def _model(self) -> bool:
        """Probe whether the model answers, and by which name the limit of output tokens is accepted."""
        for name in (*self._endpoint.format.limits, ""):
            self._requests.limits = (name,) if name else ()
            sent = await self._requests.ask(HELLO)
            if sent.answer:
                break
            if sent.refusal and sent.refusal.kind not in ("request", "settings", "server"):
                break
            if name:
                self.report.add(name, False, sent.why)
        if sent.answer is None:
            key = sent.refusal is not None and sent.refusal.kind == "access" and "401" in sent.why
            self.report.add("key" if key else "model", False, sent.why)
            return False
        if self._settings.key_place:
            self.report.add("key", True)
        self.report.add("model", True, sent.answer.model or self.report.model)
        if name:
            output = sent.answer.usage.output
            kept = output is None or output <= SHORT * self._requests.raised
            self.report.add(name, kept, "" if kept else f"ignored: the reply has {output} tokens")
        return True

    async def _sampling(self) -> None:
        """Probe the parameters of a request, and whether a request repeats its reply."""
        report = self.report
        takes = self._endpoint.format.takes
        wanted: dict[str, Any] = {"temperature": 0.0} | ({"seed": 7} if "seed" in takes else {})
        both = await self._requests.ask(HELLO, **wanted)
        accepted: dict[str, Any] = {}
        for name, value in wanted.items():
            sent = both if both.answer else await self._requests.ask(HELLO, **{name: value})
            report.add(name, sent.answer is not None, sent.why)
            accepted |= {name: value} if sent.answer else {}
        first = both if both.answer else await self._requests.ask(HELLO, **accepted)
        again = await self._requests.ask(HELLO, **accepted)
        if first.answer and again.answer:
            same = first.answer.text == again.answer.text
            report.add("same reply twice", same, "" if same else "the replies differ: measure the noise")
        effort = await self._requests.ask(HELLO, reasoning_effort="low")
        report.add("reasoning_effort", effort.answer is not None, effort.why or "accepted; it may be ignored")
        if "system_role" in takes:
            roles = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": HELLO}]
            system = await self._requests.ask(HELLO, extra={"messages": roles})
            report.add("system role", system.answer is not None, system.why)
        if "n" in takes:
            samples = await self._requests.ask(HELLO, extra={"n": 2})
            choices = 1 + len(samples.answer.further) if samples.answer else 0
            report.add(
                "n", choices == 2, samples.why or ("" if choices == 2 else f"ignored: {choices} reply")
            )

    async def _modes(self, reply_types: Mapping[str, type[BaseModel]]) -> None:
        """Probe the response modes, and tools, with the schemas of real stages."""
        wire = self._endpoint.format
        for mode in (*wire.modes, *({TOOLS} & wire.takes)):
            unread: list[str] = []
            refused = cut = ""
            for stage, reply_type in reply_types.items():
                schema = reply_schema(reply_type)
                keys = ", ".join(schema["properties"])
                text = (
                    f"List the table customer with its column name, as one JSON object with the keys {keys}."
                )
                if mode == TOOLS:
                    sent = await self._requests.ask(text, LONG, extra=_tool(schema))
                else:
                    sent = await self._requests.ask(text, LONG, schema=schema, response_mode=mode)
                if sent.answer is None:
                    refused = sent.why
                    break
                if sent.answer.truncated and (mode != TOOLS or sent.answer.arguments):
                    cut = "accepted; a reply was cut off"
                elif not _fits(sent, mode, reply_type):
                    unread.append(stage)
            if mode == TOOLS and unread and not refused:
                self.report.add(mode, "unknown", f"accepted, but not called: {', '.join(unread)}")
                continue
            why = refused or (f"accepted, but the reply did not fit: {', '.join(unread)}" if unread else "")
            self.report.add(mode, not why, why or cut)

    async def _counting(self) -> None:
        """Probe whether the endpoint counts the tokens of a prompt, where the protocol has a request for that."""
        if self._endpoint.format.counting:
            tokens = await self._endpoint.count_tokens(self._requests.body(SQL_TEXT, SHORT))
            detail = f"{len(SQL_TEXT) / tokens:.1f} characters of SQL a token" if tokens else ""
            self.report.add("token counting", bool(tokens), detail)

    async def _speed(self) -> None:
        """Measure the time to the first byte, and output tokens per second."""
        streamed = await self._endpoint.stream(self._requests.body(STORY, LONG))
        self.report.count(streamed.usage if streamed else Usage(input=0, output=0))
        if not streamed:
            self.report.add("streaming", False)
            return
        # A proxy may keep a stream until its end: its parts then arrive at once, and say nothing about the speed.
        in_parts = streamed.seconds - streamed.first_s >= IN_PARTS * streamed.seconds
        self.report.add("streaming", True, "" if in_parts else "all parts arrive at once")
        seconds = streamed.seconds - (streamed.first_s if in_parts else 0)
        if in_parts:
            self.report.first_byte_s = round(streamed.first_s, 3)
        if seconds > 0:
            self.report.tokens_per_s = round((streamed.usage.output or streamed.parts) / seconds, 1)

    async def _parallel(self, most: int) -> None:
        """Send 1, 2, 4, ... requests at once, until more are no faster or are refused."""
        best, refused, slower = 0.0, "", 0
        for level in (each for each in LEVELS if each <= most):
            self._step(f"{counted(level, 'request')} at once")
            began = time.monotonic()
            sent = await asyncio.gather(
                *(self._requests.ask(f"{HELLO} ({level}-{number})") for number in range(level))
            )
            if refused := next((each.why for each in sent if each.refusal), ""):
                break
            seconds = time.monotonic() - began
            rate = level / seconds
            if rate < best * GAIN and seconds >= MEASURABLE_S:
                slower = level
                break
            best, self.report.parallel = max(best, rate), level
        why = (
            f"{slower} are no faster" if slower else refused or f"{self.report.parallel} were the most tried"
        )
        self.report.add("requests at once", True, f"{self.report.parallel}; {why}")

    async def _context(self) -> None:
        """Report the context length of /models, or of the refusal of a prompt that is too long."""
        report = self.report
        if report.context_tokens is None and not (self._settings.key_place or self._settings.headers_env):
            report.context_tokens = await refused_length(self._requests, self._step)
        known = report.context_tokens
        report.add("context length", known is not None or "unknown", f"{known:,} tokens" if known else "")

    def _bill(self) -> None:
        """Report which token counts the endpoint gives, and the cost of all requests."""
        report, prices = self.report, prices_for(self._settings)
        found = {
            name: any(getattr(usage, name) is not None for usage in self._requests.usages) for name in USAGE
        }
        found["cost"] = any(each is not None for each in self._requests.reported)
        given, missing = (
            ", ".join(name for name, there in found.items() if there is wanted).replace("_", " ")
            for wanted in (True, False)
        )
        if self._requests.usages:
            report.add(
                "usage", bool(given), f"{given or 'none'}{f'; not reported: {missing}' if missing else ''}"
            )
        if self._requests.reported and all(each is not None for each in self._requests.reported):
            report.cost_usd = sum(each for each in self._requests.reported if each is not None)
        elif not report.unreported:
            report.cost_usd = cost(Usage(input=report.input_tokens, output=report.output_tokens), prices)
        report.add("price", prices is not None, "" if prices else "set prices to know what a run costs")


def _tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request whose reply is to be the arguments of a tool."""
    function = {"name": "reply", "description": "Takes the reply.", "parameters": dict(schema)}
    return {"tools": [{"type": "function", "function": function}]}


def _fits(sent: Sent, mode: str, reply_type: type[BaseModel]) -> bool:
    """Return whether a reply has the form that its mode requests."""
    assert sent.answer is not None
    text = sent.answer.arguments if mode == TOOLS else sent.answer.text
    if mode != "text" and not _is_object(text):
        return False
    return mode == "json_object" or read_reply(text, reply_type).value is not None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
