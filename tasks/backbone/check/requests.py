"""The requests of the probes: small, with changed settings, and counted."""

from collections.abc import Mapping
from typing import Any

from tasks.backbone.check.endpoint import Endpoint, Sent
from tasks.backbone.check.report import EndpointReport
from tasks.backbone.protocol import Message, Request
from tasks.core.outcome import Usage

SHORT, LONG = 16, 96
"""Limits of output tokens."""
MOST_RAISED = 64
"""Factor by which the limits of output tokens are raised if a model reasons longer than they allow."""
UNSET: Mapping[str, Any] = dict.fromkeys(
    ("temperature", "seed", "reasoning_effort", "max_tokens", "max_completion_tokens")
)
"""Settings that a request has no field for unless it is probed."""


class ProbeRequests:
    """Requests to one endpoint, which a report counts.

    Attributes:
        limits: settings by which the limit of output tokens is sent.
        raised: factor by which all limits are raised.
        usages: token counts of the replies.
        reported: cost of each reply as the endpoint reports it.
    """

    def __init__(self, endpoint: Endpoint, report: EndpointReport) -> None:
        self._endpoint = endpoint
        self._report = report
        self.limits: tuple[str, ...] = ()
        self.raised = 1
        self.usages: list[Usage] = []
        self.reported: list[float | None] = []

    async def ask(
        self,
        text: str,
        limit: int = SHORT,
        *,
        schema: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
        **changed: Any,
    ) -> Sent:
        """Send a request with changed settings, and with further fields of its body."""

        async def send() -> Sent:
            body = self.body(text, limit, schema, changed)
            return await self._endpoint.ask(body | dict(extra or {}))

        sent = await send()
        while sent.lacks_tokens and self.raised < MOST_RAISED:
            self.raised *= 8
            sent = await send()
        if sent.answer:
            self.usages.append(sent.answer.usage)
            self.reported.append(sent.answer.cost_usd)
        self._report.count(sent.answer.usage if sent.answer else Usage(0, 0, 0))
        return sent

    def body(
        self,
        text: str,
        limit: int,
        schema: Mapping[str, Any] | None = None,
        changed: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the body of a request."""
        limits = dict.fromkeys(self.limits, limit * self.raised)
        update = {**UNSET, "model": self._report.model, **limits, **(changed or {})}
        settings = self._endpoint.settings.model_copy(update=update)
        return self._endpoint.format.body(Request((Message("user", text),), schema), settings)
