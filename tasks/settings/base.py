"""The base of every settings model."""

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from tasks.core.wording import storable


class Settings(BaseModel):
    """Strict and frozen: an unknown key is an error, a value of another type is an error (`k: "3"` is not 3).

    Docstrings under the fields become the descriptions of the form in Prefect's UI.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_stored(cls, value: Any) -> Any:
        """Refuse text with NUL or half of a surrogate pair, on which stores and MLflow fail after the first call."""
        if not _storable(value):
            raise ValueError("it contains NUL or half of a surrogate pair, which no store can hold")
        return value


def _storable(value: Any) -> bool:
    if isinstance(value, str):
        return storable(value) == value
    if isinstance(value, dict):
        return all(map(_storable, (*value.keys(), *value.values())))
    return all(map(_storable, value)) if isinstance(value, list | tuple) else True
