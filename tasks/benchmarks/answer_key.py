"""An answer key: what it changes of a benchmark's golds and questions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tasks.core.errors import DataError
from tasks.core.records import Question
from tasks.core.wording import and_more, counted, storable
from tasks.settings.base import Settings
from tasks.settings.benchmark import QuestionId
from tasks.sql.same_query import query_key

Action = Literal["replace", "add", "withdraw"]
SHOWN_PROBLEMS = 30

_Text = Annotated[str, BeforeValidator(lambda text: storable(text) if isinstance(text, str) else text)]
_Texts = Annotated[
    tuple[_Text, ...],
    Field(strict=False),
    BeforeValidator(lambda sql: [sql] if isinstance(sql, str) else sql),
]


class KeyEntry(Settings):
    """What a key changes of one question."""

    question_id: QuestionId
    """The question."""
    action: Action
    """What is done to its gold."""
    sql: _Texts = ()
    """SQL whose results are right, in the dialect of the databases."""
    reason: _Text = ""
    """What is wrong with the gold."""
    source: _Text = ""
    """Who says so: a person, a paper, an issue."""
    question: _Text | None = None
    """Text of the question under this key; null: that of the benchmark."""
    evidence: _Text | None = None
    """Evidence of the question under this key; null: that of the benchmark."""

    def has_text_of(self, question: Question) -> bool:
        """Return whether a model that saw this question saw the text of the key, blanks aside."""
        pairs = ((self.question, question.text), (self.evidence, question.evidence))
        return all(mine is None or words(mine) == words(shown) for mine, shown in pairs)


@dataclass(frozen=True)
class Official:
    """The benchmark's own questions and golds, with which a key is compared."""

    name: str  # the benchmark's name
    questions: Mapping[str, Question]  # by id
    # gold SQL by question id, as the files have it; several where each is right. Absent without gold SQL.
    golds: Mapping[str, tuple[str, ...]] = field(repr=False)
    dialect: str = ""  # of its SQL; "" is standard SQL


@dataclass(frozen=True)
class AnswerKey:
    """One answer key."""

    name: str  # its name in `scores`, in MLflow and in the warehouse
    file: Path  # the file that it was read from; of several, the first
    sha256: str  # its checksum; of several files, that of their checksums
    # by question id, in file order: the questions of which it changes something
    entries: Mapping[str, KeyEntry] = field(repr=False)
    # ids of questions to which it has no answer. A file of corrections has none: it keeps the other golds.
    absent: frozenset[str] = field(default=frozenset(), repr=False)
    # everything that is wrong with it, in sentences; entries that are named there are left out
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what a user should know about its file, in sentences

    def demand_valid(self, further: Collection[str] = ()) -> None:
        """Raise one error about everything that is wrong, with `further` problems that were found since it was read."""
        found = [*self.problems, *further]
        if not found:
            return
        lines = filter(None, (*found[:SHOWN_PROBLEMS], and_more(found, SHOWN_PROBLEMS)))
        raise DataError(
            f"The answer key {self.name} ({self.file}) cannot be used, {counted(len(found), 'problem')}:\n"
            + "\n".join(f"  {line}" for line in lines)
            + '\n"crosscheck benchmarks verify --key KEY" checks it; without benchmark.answer_keys there is only the '
            "official score."
        )


def words(text: str) -> str:
    """Return a text with single blanks."""
    return " ".join(text.split())


def same_sql(one: Sequence[str], other: Sequence[str], dialect: str) -> bool:
    """Return whether two lists of SQL are the same queries, in the same order."""
    return [query_key(sql, dialect) for sql in one] == [query_key(sql, dialect) for sql in other]
