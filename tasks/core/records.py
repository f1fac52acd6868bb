"""Typed, frozen records that travel between stages. No I/O, no behaviour beyond what their fields imply.

Names are the papers': a *link* is the outcome of schema linking, *evidence* is BIRD's hint on a question
(the RSL-SQL paper's context C), a *demonstration* is a training question with its gold SQL. Those from `AlignedToken`
on are of DAC.
Gold SQL of the evaluated split is in none of them: only `tasks.scoring` reads it.
"""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a benchmark, without its gold SQL.

    Attributes:
        id: the benchmark's own id as text (BIRD's `question_id`; Spider's position in its file, from 0).
        text: the text of the question.
        database_id: name of its database.
        evidence: the benchmark's hint, "" where it has none.
        difficulty: the benchmark's own grade ("simple", "easy", ...), None where it has none.
    """

    id: str
    text: str
    database_id: str
    evidence: str = ""
    difficulty: str | None = None


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A training question with its gold SQL, shown to the backbone as an example."""

    question: str
    sql: str
    database_id: str
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class FewShotQuestion:
    """A question with the demonstrations that its prompts show, most similar first."""

    question: Question
    demonstrations: tuple[Demonstration, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class ColumnName:
    """A column by its table and name, both spelled as the database spells them."""

    table: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"


Value = str | int | float
"""A value of a column as a prompt can show it."""


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Values of one column that a question may mean, the likeliest first (SEA-SQL, semantic-enhanced schema)."""

    column: ColumnName
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """Tables and columns that schema linking keeps, in schema order, each once, all present in the schema."""

    tables: tuple[str, ...] = ()  # names of the linked tables; every table of `columns` is among them
    columns: tuple[ColumnName, ...] = ()  # the linked columns
    # names that the backbone gave and the schema does not have, as the backbone spelled them
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Contextual information augmentation of RSL-SQL (H_E, H_K, H_C); None where its switch is off."""

    elements: Link | None = None
    keywords: tuple[str, ...] | None = None
    conditions: tuple[str, ...] | None = None


Status = Literal["ok", "error", "timeout", "too_large"]


@dataclass(frozen=True)  # without slots: it comes from workers pickled, which slots make slower
class Execution:
    """The outcome of executing one SQL."""

    # "ok"; "error" (the engine refused it, or the sandbox did); "timeout" (the deadline stopped it); "too_large"
    # (rows or bytes past the cap, or out of the worker's memory)
    status: Status
    columns: tuple[str, ...] = ()  # names of the result's columns
    rows: tuple[tuple[Any, ...], ...] = ()  # the first rows, as many as requested
    row_count: int | None = None  # rows of the whole result; None where it did not finish
    error: str = ""  # the database's message, "" when ok
    seconds: float = 0.0  # time spent executing and fetching

    @property
    def ok(self) -> bool:
        """Whether the query ran to its end."""
        return self.status == "ok"

    @property
    def empty(self) -> bool:
        """Whether the query ran and returned no row."""
        return self.ok and self.row_count == 0


@dataclass(frozen=True, slots=True)
class Answer:
    """The SQL of a stage.

    Attributes:
        sql: one statement; None where the reply held none.
        note: why this is less than a full answer ("" normally): a fallback taken, a limit reached.
    """

    sql: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class SqlPair:
    """SQL1 and SQL2, between which binary selection decides; None for one that no reply held."""

    sql1: str | None
    sql2: str | None


@dataclass(frozen=True, slots=True)
class Selection:
    """What binary selection decided between SQL1 and SQL2."""

    sql: str | None  # the SQL that goes on
    # which candidate that is; "new" when the backbone wrote a third one, "same" when both were equal
    choice: Literal["first", "second", "same", "new"]
    # what decided: the backbone; the shortcut on equal or failing results; or the default, because one candidate was
    # missing or the reply unreadable
    by: Literal["backbone", "shortcut", "default"]


@dataclass(frozen=True, slots=True)
class CorrectionCase:
    """A SQL to correct, and what is shown with it."""

    few_shot: FewShotQuestion  # the question with its demonstrations
    sql: str | None  # None if there is none yet
    # keywords and conditions that are shown; a part that is None is not
    augmentation: Augmentation = Augmentation()


@dataclass(frozen=True, slots=True)
class Correction:
    """The outcome of self-correction or execution adjustment."""

    sql: str | None  # the last round's SQL, kept even if it still fails
    rounds: int  # rounds used, 0 when none was needed
    # status of the SQL that came in: "ok", "empty", "error", "timeout", "too_large" or "no_answer"
    before: str
    after: str  # status of the SQL that goes out


@dataclass(frozen=True, slots=True)
class Elimination:
    """The outcome of bias elimination (SEA-SQL)."""

    sql: str  # the SQL that goes on
    # "unchanged", the eliminator repeated the preliminary SQL; "changed", it wrote another; "kept", it gave no usable
    # answer and the preliminary SQL goes on
    outcome: Literal["unchanged", "changed", "kept"]
    note: str = ""  # why it was kept, "" otherwise


EntityType = Literal["tbl", "col", "val"]
FeedbackKind = Literal["execution", "entities", "skeleton"]

DAC_STEP = "dac_"
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
    outcome: Literal["accepted", "unchanged", "rejected", "unreadable"]
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
