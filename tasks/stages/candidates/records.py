"""What the stages that select among candidates take and return."""

from dataclasses import dataclass
from typing import Literal

Preferred = Literal["first", "second", "neither"]


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """A candidate's SQL, and how many candidates return what it returns, itself among them."""

    sql: str
    votes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two queries to compare.

    Attributes:
        first, second: the queries, in the order in which they are shown.
        rows: rows of their results that are shown.
        temperature: of the requests; None: the backbone's own.
    """

    first: str
    second: str
    rows: int
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Queries to make one of."""

    # a query of each group of equal results, the group that the vote prefers first
    groups: tuple[CandidateGroup, ...]
    rows: int  # rows of their results that are shown
    temperature: float | None = None  # of the requests; None: the backbone's own


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two queries the backbone prefers; "neither" where its reply could not be read."""

    preferred: Preferred


@dataclass(frozen=True, slots=True)
class Merged:
    """The query that the backbone wrote from several."""

    sql: str  # the query that goes on
    # "chosen", it repeated a candidate; "written", it wrote another; "kept", the vote's candidate goes on, because
    # there was no reply to read or its query does not run
    outcome: Literal["chosen", "written", "kept"]
