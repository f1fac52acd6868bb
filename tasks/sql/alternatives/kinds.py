"""The kinds of alternatives of a query."""

from typing import Literal, get_args

Kind = Literal[
    "limit_tie",
    "limit_without_order",
    "order_tie",
    "bare_column",
    "extreme_row",
    "text_number",
    "null_order",
    "float_sum",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
