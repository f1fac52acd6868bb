"""Docstrings of fields, as a schema and a page of help show them."""

from pydantic import BaseModel, Field

from tasks.core.described import Described, field_docstrings


class Base(Described, BaseModel):
    """A model."""

    first: int = 1
    """The first
    field."""
    said: int = Field(2, description="in its place")
    """Not this."""
    none: int = 3


class Derived(Base):
    first: int = 4
    none: int = 5
    """Now it has one."""
    nested: Base = Base()
    """A part."""


def test_docstrings_are_read_by_class_and_inherited() -> None:
    assert field_docstrings(Base) == {"first": "The first\nfield.", "said": "Not this."}
    assert field_docstrings(Derived) == {
        "first": "The first\nfield.", "said": "Not this.", "none": "Now it has one.", "nested": "A part.",
    }  # fmt: skip


def test_the_schema_has_them_as_pydantic_itself_writes_descriptions() -> None:
    fields = Derived.model_json_schema()["properties"]
    assert {name: field.get("description") for name, field in fields.items()} == {
        "first": "The first\nfield.", "said": "in its place", "none": "Now it has one.", "nested": "A part.",
    }  # fmt: skip
    assert "description" not in Base.model_json_schema()["properties"]["none"]


def test_a_class_without_source_has_none() -> None:
    names = {"__name__": "typed_at_a_prompt", "Base": Base}
    exec('class Typed(Base):\n    typed: int = 1\n    """Lost."""', names)
    assert field_docstrings(names["Typed"]).keys() == {"first", "said"}  # type: ignore[arg-type]
