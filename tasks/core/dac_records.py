"""Records of DAC that travel between stages. No I/O, no behaviour beyond what their fields imply."""

from dataclasses import dataclass
from typing import Literal

from tasks.core.records import ColumnName, Link

EntityType = Literal["tbl", "col", "val"]
FeedbackKind = Literal["execution", "entities", "skeleton"]
RevisionOutcome = Literal["accepted", "unchanged", "rejected", "unreadable"]

CANDIDATE = "dac_"
"""Begins the names of the SQL after each kind of feedback: "dac_execution" and so on."""


@dataclass(frozen=True, slots=True)
class AlignedToken:
    """One token of a question and what it means in the schema."""

    token: str  # as the question spells it
    table: str = ""  # the table, as the schema spells it; "" where the token means nothing
    column: str = ""  # the column; "" for a table, or where the token means nothing
    # "tbl" names a table, "col" a column, "val" a value of the column; None means nothing
    type: EntityType | None = None

    @property
    def schema(self) -> str | None:
        """The entity as the alignment list writes it: `table`, `table.column`, or None."""
        if self.type is None:
            return None
        return f"{self.table}.{self.column}" if self.column else self.table


@dataclass(frozen=True, slots=True)
class Entities:
    """Tables and columns in schema order, as the schema spells them; tables of the columns are among the tables."""

    tables: tuple[str, ...] = ()
    columns: tuple[ColumnName, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.columns)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The outcome of entity linking."""

    tokens: tuple[AlignedToken, ...] = ()  # every token of the question, in order
    entities: Entities = Entities()  # what they mean
    # entities that the backbone gave and the schema does not have, as it spelled them
    dropped: tuple[str, ...] = ()
    by_name: int = 0  # tokens that the backbone left unlinked and the schema's names linked
    note: str = ""  # why this is less than requested, "" normally


@dataclass(frozen=True, slots=True)
class ParsedSkeleton:
    """The outcome of skeleton parsing."""

    skeleton: str | None  # the skeleton; None where there is none
    # the SQL with invented names that it was taken from; None where the reply held none
    sql: str | None = None
    note: str = ""  # why there is no skeleton, "" normally


@dataclass(frozen=True, slots=True)
class Feedback:
    """What is wrong with a SQL, one kind at a time."""

    kind: FeedbackKind  # which kind
    error: str = ""  # what running it gave ("execution")
    # entities that the question mentions and the SQL does not use ("entities")
    missing: Entities = Entities()
    skeleton: str = ""  # the skeleton that is expected ("skeleton")


@dataclass(frozen=True, slots=True)
class RevisionRequest:
    """A SQL, and what a correction of it starts from."""

    sql: str | None  # the current SQL; None where there is none
    feedback: Feedback  # what is wrong with it
    # the question's tokens with what they mean; () where they were not linked
    alignment: tuple[AlignedToken, ...] = ()
    round: int = 0  # which correction of this kind this is, from 0: the index of the sample
    temperature: float | None = None  # None for the backbone's own
    strict: bool = False  # whether the feedback is a demand, and a longer revision rejected (released code)


@dataclass(frozen=True, slots=True)
class Sample:
    """Which of several SQLs for one question is requested."""

    index: int = 0  # from 0
    temperature: float | None = None  # None for the backbone's own


@dataclass(frozen=True, slots=True)
class Revision:
    """The outcome of one correction."""

    kind: FeedbackKind  # the kind of feedback
    sql: str | None  # the SQL after it: the new one if accepted, else the one before
    # "accepted"; "unchanged" the same SQL came back; "rejected" the new one failed to execute, or was longer where
    # that is not allowed; "unreadable" the reply held no SQL
    outcome: RevisionOutcome
    proposed: str | None = None  # the SQL that came back; None where the reply held none
    note: str = ""  # why it was not accepted, "" when it was


@dataclass(frozen=True, slots=True)
class Oracle:
    """Right answers to the sub-tasks, from the gold SQL: for analysis only (see `scoring.linking`)."""

    entities: Entities | None = None  # what the gold uses; None where entities are not given
    # the gold's skeleton, or why it has none; None where the skeleton is not given
    skeleton: ParsedSkeleton | None = None
    # the tables and columns that the gold reads, for RSL-SQL's schema; None where they are not given
    link: Link | None = None
