"""How much one query, and the process that runs it, may take, and what the sandbox says of SQL beyond that."""

from dataclasses import dataclass

MIB = 1024 * 1024
ONLY_QUERIES = "The sandbox only lets a query read this database: {} is not allowed."
SEVERAL_STATEMENTS = "The SQL holds more than one statement; give exactly one."
OUT_OF_MEMORY = "The query ran out of memory."


class RefusedError(Exception):
    """SQL that the sandbox does not give to the engine; the message says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the sandbox."""

    timeout_s: float = 30.0  # seconds after which a query is stopped
    # seconds a query may overrun that before its process ends: one call of one SQL function can ignore the deadline
    # for as long as it runs
    overrun_s: float = 0.3
    # seconds a worker may take beyond the time of its queries, to compare what they return
    grace_s: float = 2.0
    max_rows: int = 1_000_000  # rows of a result
    max_bytes: int = 128 * MIB  # bytes that the rows of a result take in Python
    max_value_bytes: int = 32 * MIB  # bytes of one value; without it a single `zeroblob` fills the memory
    max_sql_bytes: int = 200_000  # bytes of one statement
    max_expression_depth: int = 1000  # nesting of an expression
    max_like_pattern_bytes: int = 1000  # bytes of a LIKE or GLOB pattern; matching takes time with its square
    # address space of a worker in MiB, at least 128; the engine itself gets half of it
    memory_mb: int = 512
    writes_files: bool = False  # whether a worker may write files
