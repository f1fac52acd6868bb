"""The base of every settings model."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from tasks.core.described import Described
from tasks.core.errors import ConfigurationError
from tasks.core.wording import sentence, storable


class Metavar(str):
    """What the help of a command writes for the value of a field, as an annotation of its type."""


class Settings(Described, BaseModel):
    """Strict and frozen: an unknown key is an error, a value of another type is an error (`k: "3"` is not 3).

    Docstrings under the fields become the descriptions of the form in Prefect's UI.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    @classmethod
    def of_options(cls, **values: Any) -> Self:
        """Return the settings that options of the command line give; an error names the option."""
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            # The option --set gives the field `overrides`.
            name = str(first["loc"][0]).replace("overrides", "set").replace("_", "-")
            reason = first["msg"].removeprefix("Value error, ")
            raise ConfigurationError(f"--{name} {first['input']}: {sentence(reason)}") from None

    @model_validator(mode="before")
    @classmethod
    def _with_own_defaults(cls, content: Any) -> Any:
        """Give the keys that are not set in a part the values of this model's default, not of the part's own model.

        So `--set pipeline.prompt.rows=random` leaves the schema format of DAC as it is.
        """
        if not isinstance(content, dict):
            return content
        completed = dict(content)
        for name, value in content.items():
            field = cls.model_fields.get(name)
            if field and isinstance(field.default, Settings) and isinstance(value, dict):
                completed[name] = {**field.default.model_dump(exclude_unset=True), **value}
        return completed

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
