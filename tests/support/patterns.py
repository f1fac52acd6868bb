"""Every regular expression of the code base, how it is called, and texts on which a bad one takes long.

Run as a program it prints a line for each use of a pattern: "linear", or what it takes long on.
"""

import ast
import importlib
import math
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from tasks.database import server_gate as tokens
from tasks.database.dialects import dialect_of
from tasks.database.engine import ENGINES

ROOT = Path(__file__).parents[2]
SHORT = 500
LONG = 1_000_000
LONGER = 16
ATTEMPTS = 5
SHORTEST_S = 0.005
"""Seconds below which a longer text is not compared."""
WORST = 2
"""How many of the slowest short texts are repeated to a quarter of `LONG` characters."""
METHODS = ("search", "match", "fullmatch", "sub", "findall", "finditer", "split")

NAMES = ("a", "(a+)+$", "a b")
"""Names of columns and parameters; the program has to escape them."""
LINE_COMMENTS = tuple(dialect_of(name).line_comment for name in ("sqlite", "mysql"))

BUILT: Mapping[str, Mapping[str, Sequence[str]]] = {
    "tasks.backbone.endpoint.failures:_names": {"name": tuple(map(re.escape, NAMES))},
    "tasks.database.server_gate:_mysql_pattern": {
        "inner": (tokens._ESCAPED, tokens._PLAIN),
        "double": (
            '(?P<name_>"(?:[^"]++|"")*+")',
            *(f'(?P<string_>"{inner % {"mark": chr(34)}}")' for inner in (tokens._ESCAPED, tokens._PLAIN)),
        ),
    },
    "tasks.database.server_engine:refusal": {
        "pattern": tuple(
            pattern for name in ("mysql", "postgresql") for pattern, _ in ENGINES.get(name).refusals
        )
    },
    "tasks.sql.elements:_word": {"name": NAMES},
    "tasks.sql.same_query:_gaps": {"line_comment": LINE_COMMENTS},
}
"""Patterns that are built while the program runs: module and function, to the worst values of its variables."""


@dataclass(frozen=True)
class Use:
    """A pattern and one way in which the code calls it.

    Attributes:
        place: module and line.
        pattern: the compiled pattern.
        method: of `re.Pattern`.
        longest: characters of the longest text that it is given.
    """

    place: str
    pattern: re.Pattern[str]
    method: str
    longest: int = LONG


def uses(bounds: dict[str, int]) -> Iterator[Use]:
    """Yield every use of every pattern.

    Args:
        bounds: `module:name` of a pattern, or of the function that writes it, to the longest text that it is given.
    """
    trees = {
        path: ast.parse(path.read_text())
        for root in ("flows", "tasks")
        for path in sorted((ROOT / root).rglob("*.py"))
    }
    called: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                value = node.value
                name = (
                    value.id
                    if isinstance(value, ast.Name)
                    else value.attr
                    if isinstance(value, ast.Attribute)
                    else ""
                )
                called.setdefault(f"{path}:{name}" if name.startswith("_") else name, set()).add(node.attr)
    for path, tree in trees.items():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not any(isinstance(node, ast.Name) and node.id == "re" for node in ast.walk(tree)):
            continue
        module = importlib.import_module(name)
        for variable, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                longest = bounds.get(f"{name}:{variable}", LONG)
                for method in sorted(
                    called.get(f"{path}:{variable}" if variable.startswith("_") else variable, ())
                ):
                    yield Use(f"{name}:{variable}", value, method, longest)
        for function, node in _calls(tree, ""):
            place = f"{name}:{node.lineno}"
            for text, flags in _evaluated(node, vars(module), f"{name}:{function}"):
                method = "search" if node.func.attr == "compile" else node.func.attr  # type: ignore[attr-defined]
                longest = bounds.get(f"{name}:{function}", LONG)
                yield Use(place, re.compile(text, flags), method, longest)


def _calls(tree: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of `re` with the name of their function, without what a module compiles when imported."""
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef) else function
        called = node.func if isinstance(node, ast.Call) else None
        of_re = isinstance(called, ast.Attribute) and ast.unparse(called.value) == "re"
        if of_re and (called.attr in METHODS or (called.attr == "compile" and inner)):  # type: ignore[union-attr]
            yield inner, node  # type: ignore[misc]
        yield from _calls(node, inner)


def _evaluated(node: ast.Call, known: dict[str, Any], place: str) -> Iterator[tuple[str, int]]:
    """Yield the patterns of a call of `re` and their flags; those that are built, with all values of `BUILT`.

    Raises:
        NameError: `BUILT` lacks a variable of the function.
    """
    positional = {"compile": 1, "sub": 4, "split": 3}.get(node.func.attr, 2)  # type: ignore[attr-defined]
    written = [word.value for word in node.keywords if word.arg == "flags"] or node.args[positional:]
    flags = eval(ast.unparse(written[0]), known) if written else 0
    used = {part.id for part in ast.walk(node.args[0]) if isinstance(part, ast.Name)}
    variables = {name: values for name, values in BUILT.get(place, {}).items() if name in used}
    for values in product(*variables.values()):
        here = {**known, **dict(zip(variables, values, strict=True))}
        yield eval(ast.unparse(node.args[0]), here), flags


class Shape(NamedTuple):
    """Texts of any length: a prefix, a repeated unit and an end."""

    prefix: str
    unit: str
    end: str = ""

    def text(self, length: int) -> str:
        """Return the text with about so many characters."""
        return self.prefix + self.unit * (length // len(self.unit)) + self.end


def shapes(pattern: re.Pattern[str]) -> Iterator[Shape]:
    """Yield texts of a pattern's own characters: repeated, in pairs, and each repetition after what leads to it."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    characters = sorted(set(_characters(tree)))[:40]
    seeds = list(dict.fromkeys([*characters, " ", "a", "\n"]))
    pieces = list(dict.fromkeys(_pumps(tree, "")))
    for seed in seeds:
        yield Shape("", seed)
    for first, second in permutations(seeds[:10], 2):
        yield Shape("", first + second)
        yield Shape(first, second)
    for prefix, pump in pieces:
        for unit in (pump, prefix + pump, prefix):
            if unit:
                for end in ("", "\0", "\n", " a"):
                    yield Shape(prefix, unit, end)
        for seed in seeds[:6]:
            yield Shape(prefix, pump + seed)


def _characters(tree: Any) -> Iterator[str]:
    for operator, argument in tree:
        if operator is sre.LITERAL:
            yield chr(argument)
        elif operator is sre.NOT_LITERAL:
            yield "x" if chr(argument) != "x" else "y"
        elif operator is sre.ANY:
            yield "x"
        elif operator is sre.IN:
            yield from _members(argument)
        else:
            for part in _parts(operator, argument):
                yield from _characters(part)


def _members(items: Any) -> list[str]:
    found = []
    for operator, argument in items:
        if operator is sre.LITERAL:
            found.append(chr(argument))
        elif operator is sre.RANGE:
            found += [chr(argument[0]), chr(argument[1])]
        elif operator is sre.CATEGORY:
            found.append(
                {sre.CATEGORY_DIGIT: "1", sre.CATEGORY_SPACE: " ", sre.CATEGORY_WORD: "a"}.get(
                    argument, "-" if argument is sre.CATEGORY_NOT_WORD else "x"
                )
            )
    if items and items[0][0] is sre.NEGATE:
        return [one for one in ("x", " ", "1", "-", "(", "\n", "'") if re.match(_class(items), one)] or ["x"]
    return found


def _class(items: Any) -> re.Pattern[str]:
    from re import _compiler  # type: ignore[attr-defined]

    state = parser.State()
    state.str = ""
    return _compiler.compile(parser.SubPattern(state, [(sre.IN, items)]))


def _parts(operator: Any, argument: Any) -> list[Any]:
    if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [argument[2]]
    if operator is sre.SUBPATTERN:
        return [argument[3]]
    if operator is sre.ATOMIC_GROUP:
        return [argument]
    if operator is sre.BRANCH:
        return list(argument[1])
    if operator in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    return []


def _sample(tree: Any) -> str:
    """Return a short text that a part of a pattern matches, roughly."""
    text = ""
    for operator, argument in tree:
        if operator in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            text += next(iter(_characters([(operator, argument)])), "x")
        elif operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            text += _sample(argument[2]) * max(1, min(argument[0], 5))
        elif operator is sre.BRANCH:
            text += next((one for one in map(_sample, argument[1]) if one), "")
        elif operator in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
            text += _sample(_parts(operator, argument)[0])
    return text


def _pumps(tree: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield what leads to each unbounded repetition, and what it repeats, each alternative of it."""
    for operator, argument in tree:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and argument[1] > 20:
            for alternative in _alternatives(argument[2]):
                yield prefix, alternative
        for part in _parts(operator, argument):
            yield from _pumps(part, prefix)
        prefix += _sample([(operator, argument)])


def _alternatives(tree: Any) -> list[str]:
    if len(tree) == 1:
        operator, argument = tree[0]
        if operator is sre.IN:
            return _members(argument)
        if operator in (sre.BRANCH, sre.SUBPATTERN, sre.ATOMIC_GROUP):
            return [one for part in _parts(operator, argument) for one in _alternatives(part)]
    return [one for one in [_sample(tree)] if one]


def seconds(use: Use, text: str, within: float | None = None) -> float:
    """Return the processor time of this thread that a use takes on a text, infinity beyond `within`.

    The time of the process is not used: while a timer runs, Linux updates it once per tick.
    """
    began = time.thread_time()
    signal.setitimer(signal.ITIMER_PROF, within or 0.0)
    try:
        if use.method == "sub":
            use.pattern.sub("", text)
        elif use.method == "finditer":
            for _ in use.pattern.finditer(text):
                pass
        else:
            getattr(use.pattern, use.method)(text)
    except TimeoutError:
        return math.inf
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.thread_time() - began


def is_linear(use: Use, shorter: str, longer: str) -> bool:
    """Return whether a use grows with its text: n times as long takes less than n ** 1.5 times as long.

    A quadratic one takes n ** 2 times as long. Time that a busy machine takes from a measurement makes it longer, so
    the best of several counts.
    """
    allowed = (len(longer) / max(len(shorter), 1)) ** 1.5
    for _ in range(ATTEMPTS):
        most = allowed * min(seconds(use, shorter, within=1.0) for _ in range(ATTEMPTS))
        if most == math.inf:
            return False
        if seconds(use, longer, within=most + SHORTEST_S) < max(most, SHORTEST_S):
            return True
    return False


def slow(use: Use) -> str | None:
    """Return what a use is slow on; None where it is not.

    A part that is repeated at most 300 times makes a pattern look quadratic on short texts: longer ones decide.
    """
    if use.longest < LONG:
        return _slow_within(use)
    lengths = (SHORT, SHORT * LONGER, SHORT * LONGER**2)
    taken = []
    for shape in dict.fromkeys(shapes(use.pattern)):
        shorter, longer = map(shape.text, lengths[:2])
        took = seconds(use, longer, within=1.0)
        if took >= SHORTEST_S and not is_linear(use, shorter, longer):
            longest = shape.text(lengths[2])
            if not is_linear(use, longer, longest):
                return f"more than linear time for {len(longest):,} characters like {longer[:40]!r}"
        taken.append((took, shape))
    for _, shape in sorted(taken, reverse=True)[:WORST]:
        longer, longest = shape.text(LONG // 256), shape.text(LONG // 4)
        if not is_linear(use, longer, longest):
            return f"more than linear time for {len(longest):,} characters like {longer[:40]!r}"
    return None


def _slow_within(use: Use) -> str | None:
    """Return what a use of bounded texts takes longer on than a linear pattern takes for 1 MB."""
    for text in {shape.text(use.longest): None for shape in shapes(use.pattern)}:
        if all(seconds(use, text) > _words() for _ in range(ATTEMPTS)):
            return f"longer than 1 MB of words for {len(text):,} characters like {text[:40]!r}"
    return None


@cache
def _words() -> float:
    return min(
        seconds(Use("", re.compile(r"\w+ "), "findall"), "word " * (LONG // 5)) for _ in range(ATTEMPTS)
    )


def _give_up(signum: int, frame: object) -> None:
    raise TimeoutError


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, _give_up)
    known = dict(argument.split("=") for argument in sys.argv[1:])
    for one in uses({name: int(longest) for name, longest in known.items()}):
        sys.stdout.write(f"{one.place} {one.method} ")
        sys.stdout.flush()
        sys.stdout.write(f"{slow(one) or 'linear'}\n")
