"""Every regular expression of the code base, how it is called, and texts on which a bad one takes long.

Run as a program it prints a line for each use of a pattern: "linear", or what it takes long on.
"""

import ast
import importlib
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

ROOT = Path(__file__).parents[2]
SHORT = 8_000
"""Characters on which a quadratic pattern is already far slower than a linear one."""
LONG = 1_000_000
SHORT_SECONDS = 0.1
LONG_SECONDS = 10.0
METHODS = ("search", "match", "fullmatch", "sub", "findall", "finditer", "split")


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
        bounds: `module:name` of a pattern, or `module` for all of a module, to the longest text that it is given.
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
                longest = bounds.get(f"{name}:{variable}", bounds.get(name, LONG))
                for method in sorted(
                    called.get(f"{path}:{variable}" if variable.startswith("_") else variable, ())
                ):
                    yield Use(f"{name}:{variable}", value, method, longest)
        for node in ast.walk(tree):
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in METHODS
            ):
                continue
            if ast.unparse(node.func.value) != "re":
                continue
            try:
                text = eval(ast.unparse(node.args[0]), vars(module))
                flags = next(
                    (
                        eval(ast.unparse(word.value), vars(module))
                        for word in node.keywords
                        if word.arg == "flags"
                    ),
                    0,
                )
                if (
                    not flags
                    and node.func.attr in ("search", "match", "fullmatch", "findall", "finditer")
                    and len(node.args) > 2
                ):
                    flags = eval(ast.unparse(node.args[2]), vars(module))
            except NameError:
                continue
            place = f"{name}:{node.lineno}"
            yield Use(
                place, re.compile(text, flags), node.func.attr, bounds.get(place, bounds.get(name, LONG))
            )


def texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Yield texts of a pattern's own characters: repeated, in pairs, and each repetition after what leads to it."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    characters = sorted(set(_characters(tree)))[:40]
    seeds = list(dict.fromkeys([*characters, " ", "a", "\n"]))
    pieces = list(dict.fromkeys(_pumps(tree, "")))
    for seed in seeds:
        yield seed * length
    for first, second in permutations(seeds[:10], 2):
        yield (first + second) * (length // 2)
        yield first + second * length
    for prefix, pump in pieces:
        for unit in (pump, prefix + pump, prefix):
            if unit:
                for end in ("", "\0", "\n", " a"):
                    yield prefix + unit * (length // len(unit)) + end
        for seed in seeds[:6]:
            yield prefix + (pump + seed) * (length // (len(pump) + 1))


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


def seconds(use: Use, text: str) -> float:
    """Return the processor time that a use takes on a text."""
    began = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, LONG_SECONDS if len(text) >= LONG // 2 else 2.0)
    with suppress(TimeoutError):
        if use.method == "sub":
            use.pattern.sub("", text)
        elif use.method == "finditer":
            for _ in use.pattern.finditer(text):
                pass
        else:
            getattr(use.pattern, use.method)(text)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - began


def _give_up(signum: int, frame: object) -> None:
    raise TimeoutError


def slow(use: Use) -> str | None:
    """Return what a use is slow on; None where it is not."""
    allowed = SHORT_SECONDS * (25 if use.longest < LONG else 1)
    taken: list[tuple[float, str]] = []
    for length in sorted({min(one, use.longest) for one in (SHORT // 16, SHORT // 4, SHORT)}):
        taken = []
        for text in dict.fromkeys(texts(use.pattern, length)):
            took = seconds(use, text)
            if took > allowed and (took > 1 or min(took, seconds(use, text)) > allowed):
                return f"{took:.2f} s for {len(text):,} characters like {text[:24]!r}"
            taken.append((took, text))
    if use.longest >= LONG:
        for _, text in sorted(taken, reverse=True)[:2]:
            took = seconds(use, text * (LONG // max(len(text), 1)))
            if took > LONG_SECONDS * 0.9:
                return f"{took:.2f} s for 1 MB of {text[:24]!r}"
    return None


if __name__ == "__main__":
    signal.signal(signal.SIGVTALRM, _give_up)
    known = dict(argument.split("=") for argument in sys.argv[1:])
    for one in uses({name: int(longest) for name, longest in known.items()}):
        sys.stdout.write(f"{one.place} {one.method} ")
        sys.stdout.flush()
        sys.stdout.write(f"{slow(one) or 'linear'}\n")
