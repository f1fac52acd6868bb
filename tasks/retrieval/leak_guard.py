"""Removes questions and gold SQL of the evaluated split from the demonstrations (our addition to RSL-SQL)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from tasks.benchmarks.fingerprint import question_fingerprint, sql_fingerprint
from tasks.core.records import Demonstration, Question

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
            f"{self.removed:,} of {total:,} demonstrations come from the evaluated questions and are not used: "
            f"{self.by_question:,} by their question, {self.by_sql:,} by their SQL alone."
        )


def without_leaks(
    pool: Iterable[Demonstration],
    evaluated_questions: Iterable[Question],
    evaluated_gold_fingerprints: Collection[str],
) -> GuardedPool:
    """Remove every example whose question or SQL is in the evaluated split, also of other databases.

    Case, white space, quotes and closing punctuation make no difference; see `tasks.benchmarks.fingerprint`.

    Args:
        pool: the training questions.
        evaluated_questions: the *whole* evaluated split, not only what is selected for a run: the
            demonstrations of a question must not depend on which others run with it.
        evaluated_gold_fingerprints: `sql_fingerprint` of all of the split's gold; the gold itself stays with
            scoring.
    """
    evaluated_texts = {question_fingerprint(question.text) for question in evaluated_questions}
    gold = frozenset(evaluated_gold_fingerprints)
    kept: list[Demonstration] = []
    by_question = by_sql = 0
    for example in pool:
        if question_fingerprint(example.question) in evaluated_texts:
            by_question += 1
        elif sql_fingerprint(example.sql) in gold:
            by_sql += 1
        else:
            kept.append(example)
    return GuardedPool(tuple(kept), by_question, by_sql)
