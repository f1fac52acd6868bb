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
    """One token of a question and what it means in the schema.

    Attributes:
        token: as the question spells it.
        table: the table, as the schema spells it; "" where the token means nothing.
        column: the column; "" for a table, or where the token means nothing.
        type: "tbl" names a table, "col" a column, "val" a value of the column; None means nothing.
    """

    token: str
    table: str = ""
    column: str = ""
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
    """The outcome of entity linking.

    Attributes:
        tokens: every token of the question, in order.
        entities: what they mean.
        dropped: entities that the backbone gave and the schema does not have, as it spelled them.
        by_name: tokens that the backbone left unlinked and the schema's names linked.
        note: why this is less than requested, "" normally.
    """

    tokens: tuple[AlignedToken, ...] = ()
    entities: Entities = Entities()
    dropped: tuple[str, ...] = ()
    by_name: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class ParsedSkeleton:
    """The outcome of skeleton parsing.

    Attributes:
        skeleton: the skeleton; None where there is none.
        sql: the SQL with invented names that it was taken from; None where the reply held none.
        note: why there is no skeleton, "" normally.
    """

    skeleton: str | None
    sql: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What is wrong with a SQL, one kind at a time.

    Attributes:
        kind: which kind.
        error: what running it gave ("execution").
        missing: entities that the question mentions and the SQL does not use ("entities").
        skeleton: the skeleton that is expected ("skeleton").
    """

    kind: FeedbackKind
    error: str = ""
    missing: Entities = Entities()
    skeleton: str = ""


@dataclass(frozen=True, slots=True)
class RevisionRequest:
    """A SQL, and what a correction of it starts from.

    Attributes:
        sql: the current SQL; None where there is none.
        feedback: what is wrong with it.
        alignment: the question's tokens with what they mean; () where they were not linked.
        round: which correction of this kind this is, from 0: the index of the sample.
        temperature: None for the backbone's own.
        strict: whether the feedback is a demand, and a longer revision rejected (released code).
    """

    sql: str | None
    feedback: Feedback
    alignment: tuple[AlignedToken, ...] = ()
    round: int = 0
    temperature: float | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """Which of several SQLs for one question is requested.

    Attributes:
        index: from 0.
        temperature: None for the backbone's own.
    """

    index: int = 0
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """The outcome of one correction.

    Attributes:
        kind: the kind of feedback.
        sql: the SQL after it: the new one if accepted, else the one before.
        outcome: "accepted"; "unchanged" the same SQL came back; "rejected" the new one failed to execute, or was
            longer where that is not allowed; "unreadable" the reply held no SQL.
        proposed: the SQL that came back; None where the reply held none.
        note: why it was not accepted, "" when it was.
    """

    kind: FeedbackKind
    sql: str | None
    outcome: RevisionOutcome
    proposed: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Right answers to the sub-tasks, from the gold SQL: for analysis only, made by `scoring.papers.dac_oracle` alone.

    Attributes:
        entities: what the gold uses; None where entities are not given.
        skeleton: the gold's skeleton, or why it has none; None where the skeleton is not given.
        link: the tables and columns that the gold reads, for RSL-SQL's schema; None where they are not given.
    """

    entities: Entities | None = None
    skeleton: ParsedSkeleton | None = None
    link: Link | None = None
