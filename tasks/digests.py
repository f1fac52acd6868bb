"""Digests of files, and of source code without what only describes it: parts of cache keys."""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any


def file_digest(path: Path) -> str:
    """Return the sha256 of a file, read in full once per process and (path, size, time of change)."""
    stat = path.stat()
    return _remembered_digest(path.absolute(), stat.st_size, stat.st_mtime_ns)


def read_digest(path: Path) -> str:
    """Return the sha256 of a file as it is now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _remembered_digest(path: Path, size: int, changed_ns: int) -> str:
    return read_digest(path)


def code_of(function: Callable[..., Any]) -> str:
    """Return a function's source without its docstring; "" where there is none (an interactive session)."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    first = getattr(definition, "body", [None])[0]
    if _is_text(first):
        del lines[first.lineno - 1 : first.end_lineno]
    return "\n".join(lines)


def digest_of_files(files: Iterable[Path]) -> str:
    """Return the sha256 of Python files, in the order given, without docstrings, comments and line breaks."""
    digest = hashlib.sha256()
    for file in files:
        tree = ast.parse(file.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


def _is_text(statement: Any) -> bool:
    """Whether a statement is a text and nothing else: the docstring of what it is in, or of what is before it."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
