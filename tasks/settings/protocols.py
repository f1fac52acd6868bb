"""Settings of endpoints with another protocol than OpenAI's chat."""

from pydantic import Field, model_validator

from tasks.settings.backbone import MOST_TOKENS, BackboneSettings


class ResponsesSettings(BackboneSettings):
    """A model behind OpenAI's Responses API, or behind an endpoint that is compatible with it."""

    kind: str = "openai-responses"

    @model_validator(mode="after")
    def _of_protocol(self) -> "ResponsesSettings":
        _demand_unset(self, "seed")
        return self


class MessagesSettings(BackboneSettings):
    """A model behind Anthropic's Messages API, or behind an endpoint that is compatible with it."""

    kind: str = "anthropic"
    base_url: str = "https://api.anthropic.com/v1"
    """Endpoint, without the path `messages`."""
    temperature: float | None = Field(None, ge=0, le=1)
    """Sampling temperature; None: not sent. Models from Claude Opus 4.7 on refuse it."""
    max_tokens: int = Field(8192, gt=0, le=MOST_TOKENS)
    """Limit of output tokens, thinking included; the protocol requires one."""

    @model_validator(mode="after")
    def _of_protocol(self) -> "MessagesSettings":
        _demand_unset(self, "seed", "max_completion_tokens")
        if self.response_mode == "json_object":
            raise ValueError(
                'response_mode: the protocol has no "json_object": use json_schema, text or auto'
            )
        return self


def _demand_unset(settings: BackboneSettings, *names: str) -> None:
    for name in names:
        if getattr(settings, name) is not None:
            raise ValueError(f"{name}: the protocol has no {name}: leave it out, or set it to null")
    if settings.samples_per_request > 1:
        raise ValueError("samples_per_request: the protocol has no n: leave it out, or set it to 1")
