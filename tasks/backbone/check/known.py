"""What is known about endpoints, kept in the working folder: one file for each endpoint and model."""

import datetime
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks.backbone.endpoint.formats.identity import address_of
from tasks.core.errors import StoreError
from tasks.core.files import atomic_write_text
from tasks.settings.backbone import BackboneSettings


class KnownEndpoint(BaseModel):
    """What is known about a model at an endpoint."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    """Base URL of the endpoint."""
    model: str
    """Name of the model."""
    response_mode: str | None = None
    """The strictest response mode that the endpoint takes; None if it was not looked for."""
    refused: dict[str, str] = Field(default_factory=dict)
    """Response modes that the endpoint refused, each with the reason."""
    system_role: bool = True
    """Whether the model's chat template has the role "system"."""
    context_tokens: int | None = None
    """Context length that the endpoint states; None if it states none."""
    seen: datetime.datetime
    """Time at which this was found."""


@dataclass(frozen=True)
class KnownEndpoints:
    """The known endpoints of a working folder."""

    folder: Path
    note: Callable[[str], object] = bool  # takes a sentence for the user

    def find(self, settings: BackboneSettings) -> KnownEndpoint | None:
        """Return what is known about a backbone's endpoint and model; None for nothing."""
        try:
            return KnownEndpoint.model_validate_json(self._file(settings).read_bytes())
        except (OSError, ValidationError):
            return None

    def keep(self, settings: BackboneSettings, known: KnownEndpoint) -> None:
        """Keep what was found about a backbone's endpoint and model.

        Raises:
            StoreError: the file cannot be written.
        """
        file = self._file(settings)
        try:
            atomic_write_text(file, known.model_dump_json(indent=1))
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}.") from error

    def _file(self, settings: BackboneSettings) -> Path:
        kind = [] if settings.kind == "openai" else [settings.kind]
        name = json.dumps([address_of(settings), settings.model, *kind])
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"
