"""Patterns that are built while the program runs, with the worst names that can be put in them.

A pattern is evaluated as its function writes it, with these values for the function's variables.
"""

import re
from collections.abc import Mapping, Sequence

from tasks.backbone.offline import replies
from tasks.backbone.offline.clauses import comparing, conditions, grouping, ordering, projection, reader
from tasks.database.servers import tokens

NAMES = ("a", "(a+)+$", "a b")
"""Names of columns and parameters; the program has to escape them."""

PHRASES = (
    conditions._NOTHING, conditions._AVERAGE, grouping._EACH, grouping._AMOUNT, projection.COUNTING,
    projection._RESTART, reader._ROUND, reader._NEGATION, ordering._SORT, ordering._SUPERLATIVE,
)  # fmt: skip
BUILT: Mapping[str, Mapping[str, Sequence[str]]] = {
    "tasks.backbone.endpoint.failures:_names": {"name": tuple(map(re.escape, NAMES))},
    "tasks.backbone.offline.clauses.comparing:_operator": {"words": tuple(comparing._OPERATORS.values())},
    "tasks.backbone.offline.prompt.schema:columns_in": {"name": NAMES},
    "tasks.backbone.offline.prompt.sections:numbered": {"heading": ("sql", "result of sql", "reason")},
    "tasks.backbone.offline.question.evidence:_with_quotes": {"words": NAMES},
    "tasks.backbone.offline.question.text:find": {"pattern": PHRASES},
    "tasks.backbone.offline.replies:keywords_of": {"keyword": replies._KEYWORDS},
    "tasks.database.servers.tokens:_mysql": {
        "inner": (tokens._ESCAPED, tokens._PLAIN),
        "double": ('(?P<name_>"(?:[^"]|"")*")', r'(?P<string_>"(?:[^"\\]|\\.)*")', '(?P<string_>"[^"]*")'),
    },
    "tasks.sql.elements:_word": {"name": NAMES},
    "tasks.tracking.bundle.anonymous:of_this_machine": {"words": tuple(map(re.escape, NAMES))},
}
"""Module and function to the values that its variables can have."""
