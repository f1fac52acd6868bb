"""Validation of JSON with the types of a provider's SDK, which are generated from the provider's API description."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter


def assert_of_type(kind: Any, bodies: Iterable[Mapping[str, Any]]) -> None:
    """Assert that JSON objects have a type of an SDK, and no field that the type does not have."""
    adapter = TypeAdapter(kind)
    for body in bodies:
        found = adapter.validate_python(body)
        unknown = getattr(found, "model_extra", None) or {}
        assert not unknown, f"{sorted(unknown)} is no field of {kind}"
        if isinstance(found, dict):
            assert _plain(found) == body


def _plain(value: Any) -> Any:
    """Return a validated value as plain JSON; the items of an `Iterable` are validated when they are taken."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, str | int | float) or value is None:
        return value
    return [_plain(each) for each in value]
