"""What settings refer to by name: pipelines, kinds of backbones, benchmark layouts, stages.

Each implementation in a registry has an attribute `settings`, its settings model, so the model of a settings file
follows from the name of the implementation in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, ValidationInfo, WithJsonSchema
from pydantic_core import to_json

from tasks.core.errors import ConfigurationError
from tasks.core.registry import Registry, defined_in, import_file
from tasks.settings.backbone import BackboneSettings
from tasks.settings.base import Settings
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.pipeline import PipelineSettings

PIPELINES: Registry[Any] = Registry("pipeline", package="flows.pipelines", group="crosscheck.pipelines")
BACKBONES: Registry[Any] = Registry("backbone", package="tasks.backbone.kind", group="crosscheck.backbones")
LAYOUTS: Registry[Any] = Registry(
    "benchmark layout", package="tasks.benchmarks.layouts", group="crosscheck.layouts"
)

STAGES: set[str] = set()
"""Names of the stages that have been imported."""


@dataclass(frozen=True)
class Kind:
    """One kind of settings whose model follows from a name."""

    registry: Registry[Any]  # the implementations; each has an attribute `settings`, its settings model
    key: str  # the key under which settings name their implementation
    base: type[Settings]  # the model that all models of this kind are subclasses of

    def in_file(self, file: Path) -> tuple[str, ...]:
        """Return the names of the implementations that a Python file defines."""
        module = import_file(file, self.registry.kind)
        return tuple(name for name in defined_in(module) if self._model_of(getattr(module, name)))

    def _model_of(self, implementation: Any) -> type[Settings] | None:
        """Return the settings model of an implementation; None if it has none of this kind."""
        model = getattr(implementation, "settings", None)
        return model if isinstance(model, type) and issubclass(model, self.base) else None

    def model(self, content: Mapping[str, Any]) -> type[Settings]:
        """Return the model for the content of a file; the base where the content names no implementation."""
        name = content.get(self.key)
        if name is None:
            name = self.base.model_fields[self.key].default
        if not isinstance(name, str):  # the base then says that it is missing or no text
            return self.base
        model = self._model_of(self.registry.get(name))
        if model is None:
            raise ConfigurationError(
                f'"{name}" cannot be configured: what it names has no attribute `settings` that is '
                f"{self.base.__name__} or a subclass. CONTRIBUTING.md shows how each kind is written."
            )
        return model

    def validate(self, value: Any, info: ValidationInfo) -> Any:
        """Validate keys and values with the model of the implementation that they name; pass on what is a model."""
        if not isinstance(value, Mapping):
            return value
        model = self.model(value)
        return (
            model.model_validate_json(to_json(value)) if info.mode == "json" else model.model_validate(value)
        )


PIPELINE = Kind(PIPELINES, "kind", PipelineSettings)
BACKBONE = Kind(BACKBONES, "kind", BackboneSettings)
BENCHMARK = Kind(LAYOUTS, "layout", BenchmarkSettings)

_OPEN = WithJsonSchema({"type": "object", "additionalProperties": True})
"""JSON schema of settings whose model is not known before their content is."""

AnyPipeline = Annotated[SerializeAsAny[PipelineSettings], BeforeValidator(PIPELINE.validate), _OPEN]
AnyBackbone = Annotated[SerializeAsAny[BackboneSettings], BeforeValidator(BACKBONE.validate), _OPEN]
AnyBenchmark = Annotated[SerializeAsAny[BenchmarkSettings], BeforeValidator(BENCHMARK.validate), _OPEN]
