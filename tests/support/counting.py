"""Counts of faults for the tests of promises: injected, survived, answers lost, answers bought twice.

    @pytest.mark.promise("replies")
    def test_every_reply_can_be_stored(count: Count) -> None:
        for text in TEXTS:
            with count.fault(repr(text)):
                ...assert what is promised...

All faults of a test are tried, then the failed ones are listed. What was counted must equal what the table of
docs/promises.md declares.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import pytest

from tests.promises.table import PROMISES


@dataclass
class Count:
    """What one test counted.

    Attributes:
        promise: the key in `PROMISES`.
        faults: faults injected.
        survived: those after which everything that is promised held.
        lost: answers that had been stored and were gone; None where no answers are involved.
        twice: answers that were asked for and paid again; None likewise.
        seconds: longest time that a fault took, where the promise is about time.
        failures: the faults that were not survived, with the reason.
    """

    promise: str
    faults: int = 0
    survived: int = 0
    lost: int | None = None
    twice: int | None = None
    seconds: float | None = None
    failures: list[str] = field(default_factory=list)

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Count a fault; it is survived if the block ends without an exception."""
        self.faults += 1
        try:
            yield
        except Exception as error:
            reason = " ".join(str(error).split())[:400]
            self.failures.append(f"{name[:200]}: {type(error).__name__}: {reason}")
        else:
            self.survived += 1

    def answers(self, *, lost: int = 0, twice: int = 0) -> None:
        """Add answers that were lost or bought twice; 0 says that they were counted."""
        self.lost = (self.lost or 0) + lost
        self.twice = (self.twice or 0) + twice

    def took(self, seconds: float) -> None:
        """Note how long a fault took."""
        self.seconds = max(self.seconds or 0.0, seconds)


@pytest.fixture
def count(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Iterator[Count]:
    """Counter of the test's promise; fails the test unless all faults were survived and as many as declared."""
    marker = request.node.get_closest_marker("promise")
    counted = Count(marker.args[0])
    declared = PROMISES[counted.promise]
    yield counted
    record_property("promise", json.dumps(asdict(counted)))
    assert counted.failures == [], "\n".join(counted.failures)
    assert (counted.lost or 0) == 0
    assert (counted.twice or 0) <= declared.most_twice
    said = f"{counted.faults} faults; the page declares {declared.faults}"
    assert counted.faults >= declared.faults if declared.fuzzed else counted.faults == declared.faults, said
    assert (counted.lost is not None) == declared.answers
