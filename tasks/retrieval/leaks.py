"""The leak guard: demonstrations whose question or SQL is in the evaluated split are removed."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tasks.benchmarks.benchmark import question_fingerprint, sql_fingerprint
from tasks.core.records import Demonstration, Question
from tasks.core.wording import agreeing, counted

CHECKED = "No demonstration comes from the evaluated questions"
"""Begins the sentence on a pool without leaks."""


@dataclass(frozen=True, slots=True)
class GuardedPool:
    """A pool of demonstrations without what would leak answers."""

    # what may be shown, in the order of the original pool
    pool: tuple[Demonstration, ...] = field(repr=False)
    by_question: int  # examples removed because the evaluated split asks their question
    by_sql: int  # further examples removed because their SQL is a gold SQL of the evaluated split

    @property
    def removed(self) -> int:
        """Number of examples that were removed."""
        return self.by_question + self.by_sql

    @property
    def sentence(self) -> str:
        """Sentence for the user about what was removed."""
        total = len(self.pool) + self.removed
        if not self.removed:
            return f"{CHECKED} ({total:,} checked)."
        return (
            f"{self.removed:,} of {counted(total, 'demonstration')} {agreeing('comes', self.removed)} from the "
            f"evaluated questions and {agreeing('is', self.removed)} not used: "
            f"{self.by_question:,} by their question, {self.by_sql:,} by their SQL alone."
        )


def without_leaks(
    pool: Iterable[Demonstration],
    evaluated_questions: Iterable[Question],
    evaluated_gold_fingerprints: Collection[str],
) -> GuardedPool:
    """Remove every example whose question or SQL is in the evaluated split, also of other databases.

    Case, white space, quotes and closing punctuation make no difference; see `tasks.benchmarks.benchmark`. The
    questions are those of the *whole* split, not only what is selected for a run: the demonstrations of a question must
    not depend on which others run with it. Of the gold, only fingerprints are known here.
    """
    evaluated_texts = {question_fingerprint(question.text) for question in evaluated_questions}
    gold = frozenset(evaluated_gold_fingerprints)
    safe: list[Demonstration] = []
    by_question = by_sql = 0
    for example in pool:
        if question_fingerprint(example.question) in evaluated_texts:
            by_question += 1
        elif sql_fingerprint(example.sql) in gold:
            by_sql += 1
        else:
            safe.append(example)
    return GuardedPool(tuple(safe), by_question, by_sql)
