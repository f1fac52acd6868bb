"""Reading of YAML files and texts, with a limit on the values that aliases expand to."""

from pathlib import Path
from typing import Any

import yaml

from tasks.core.errors import ConfigurationError
from tasks.core.files import read_file

MAX_VALUES = 10_000
"""Most values of a YAML text; a value is counted again for each alias of it."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the keys and values of a YAML file."""
    try:
        content = load_yaml(read_file(path).decode())
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not YAML: {yaml_problem(error)}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as YAML: {error}") from None
    if content is None:
        raise ConfigurationError(f"{path} is empty. Write keys and values into it.")
    if not isinstance(content, dict):
        found = "a list" if isinstance(content, list) else "a single value"
        raise ConfigurationError(f"{path} must hold keys and values, not {found}.")
    return content


def yaml_problem(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without PyYAML's name for a text that it did not read from a file."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).replace(' in "<unicode string>",', " at").split())


def load_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    Raises:
        YAMLError: it is not YAML, an alias refers to a value that contains it, or there are too many values.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _values(node, {})
        return yaml.safe_load(text)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values of a node; `known` holds those of each node by its id, 0 while it is being read."""
    if id(node) in known:
        if not known[id(node)]:
            raise yaml.MarkedYAMLError(
                problem="an alias refers to a value that contains it", problem_mark=node.start_mark
            )
        return known[id(node)]
    known[id(node)] = 0
    parts: list[Any] = node.value if isinstance(node, yaml.CollectionNode) else []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    known[id(node)] = 1 + sum(_values(part, known) for part in parts)
    if known[id(node)] > MAX_VALUES:
        raise yaml.MarkedYAMLError(problem=f"more than {MAX_VALUES:,} values", problem_mark=node.start_mark)
    return known[id(node)]
