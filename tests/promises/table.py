"""The promises of docs/promises.md, and how many faults the test of each injects, read from the page's table."""

import re
from dataclasses import dataclass

from tests.support.command_line import ROOT

_ROW = re.compile(
    r"^\| (?P<name>\w+) \| (?P<text>.+) \| (?P<fuzzed>at least )?(?P<faults>[\d,]+) \| all "
    r"\| (?P<lost>0|-) \| (?:at most )?(?P<twice>\d+|-) \| `(?P<test>[\w/.]+)` \|$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Promise:
    """A promise and its test.

    Attributes:
        text: what holds, and under which faults.
        faults: number of faults that the test injects.
        test: the test's file in `tests/`.
        answers: whether paid answers are involved, so that lost and repeated ones are counted.
        fuzzed: whether the faults are built by hypothesis, so that `faults` is the least number.
        most_twice: most replies that may be bought twice: requests that several evaluations send at the same moment.
    """

    text: str
    faults: int
    test: str
    answers: bool
    fuzzed: bool
    most_twice: int


def _promise(row: re.Match[str]) -> Promise:
    answers = row["lost"] == "0"
    faults = int(row["faults"].replace(",", ""))
    return Promise(
        row["text"], faults, row["test"], answers, bool(row["fuzzed"]), int(row["twice"]) if answers else 0
    )


PROMISES = {
    row["name"]: _promise(row)
    for row in _ROW.finditer((ROOT / "docs" / "promises.md").read_text(encoding="utf-8"))
}
