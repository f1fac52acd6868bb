"""Models whose fields are described by the docstrings below them.

pydantic's `use_attribute_docstrings` reads them while a class is made, which takes a quarter of the time that a command
needs to import the settings. Here they are read when a form, a schema or a page of help shows them.
"""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Described:
    """Base of a model, beside pydantic's, whose JSON schema has the docstrings of its fields."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON schema with the descriptions."""
        schema = handler(core_schema)
        fields = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in field_docstrings(cls).items():
            if name in fields:
                fields[name].setdefault("description", text)
        return schema


def field_docstrings(model: type) -> dict[str, str]:
    """Return the docstrings of a model's fields by name, those of its bases included."""
    return {
        name: text
        for base in reversed(model.__mro__)
        if issubclass(base, BaseModel) and base is not BaseModel
        for name, text in _docstrings_by_class(base.__module__).get(base.__name__, {}).items()
    }


@cache
def _docstrings_by_class(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings below the fields of each class of a module; {} if its source is not there."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    docstrings: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            of_class = docstrings[node.name] = {}
            for statements in pairwise(node.body):
                match statements:
                    case (ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text)))):
                        of_class[name] = inspect.cleandoc(text)
    return docstrings
