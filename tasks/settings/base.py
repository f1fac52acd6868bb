"""The base of every settings model."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Strict and frozen: an unknown key is an error, a value of another type is an error (`k: "3"` is not 3).

    Docstrings under the fields become the descriptions of the form in Prefect's UI.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, protected_namespaces=()
    )
