"""Reads fixtures made of text pairs: `# title`, what goes in, `---`, what comes out, `===`."""

from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    """One case of a fixture."""

    title: str
    given: str
    expected: str


def read_pairs(path: Path) -> list[Pair]:
    """Return the cases of a file, in order; of several title lines before a case the last one counts."""
    pairs = []
    for block in path.read_text(encoding="utf-8").rstrip("\n").split("\n===\n"):
        given, _, expected = block.partition("\n---\n")
        lines = given.split("\n")
        titles = []
        while lines and lines[0].startswith("# "):
            titles.append(lines.pop(0)[2:])
        pairs.append(Pair(titles[-1], "\n".join(lines), expected))
    return pairs
