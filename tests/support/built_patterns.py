"""Patterns that are built while the program runs, with the worst names that can be put in them.

A pattern is evaluated as its function writes it, with these values for the function's variables.
"""

import re
from collections.abc import Mapping, Sequence

from tasks.database import server_gate as tokens
from tasks.database.dialects import dialect_of
from tasks.database.engine import ENGINES

NAMES = ("a", "(a+)+$", "a b")
"""Names of columns and parameters; the program has to escape them."""
LINE_COMMENTS = tuple(dialect_of(name).line_comment for name in ("sqlite", "mysql"))

BUILT: Mapping[str, Mapping[str, Sequence[str]]] = {
    "tasks.backbone.endpoint.failures:_names": {"name": tuple(map(re.escape, NAMES))},
    "tasks.database.server_gate:_mysql_pattern": {
        "inner": (tokens._ESCAPED, tokens._PLAIN),
        "double": ('(?P<name_>"(?:[^"]|"")*")', r'(?P<string_>"(?:[^"\\]|\\.)*")', '(?P<string_>"[^"]*")'),
    },
    "tasks.database.server_engine:refusal": {
        "pattern": tuple(
            pattern for name in ("mysql", "postgresql") for pattern, _ in ENGINES.get(name).refusals
        )
    },
    "tasks.sql.elements:_word": {"name": NAMES},
    "tasks.sql.same_query:_gaps": {"line_comment": LINE_COMMENTS},
}
"""Module and function to the values that its variables can have."""
