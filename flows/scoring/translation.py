"""Translation of answers into the databases' dialect before they are scored, where the settings ask for it."""

from dataclasses import replace

from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.database.database import Database, dialect_named
from tasks.sql.transpiling import Transpiled, transpile


class AnswerTranslation:
    """Translator of answers, which counts what it changes.

    Args:
        written: dialect of the answers, as a user names it.
    """

    def __init__(self, written: str) -> None:
        self._written = written
        self._dialect = dialect_named(written)
        self._translated: set[str] = set()
        self._changed: set[str] = set()
        self._unread: set[str] = set()

    def apply(self, question: Question, outcome: Outcome, database: Database) -> Outcome:
        """Return the outcome with its SQL and that of its candidates translated."""
        columns = {name.column.lower() for name in database.schema.column_names}

        def translated(sql: str) -> Transpiled:
            return transpile(sql, self._dialect, database.dialect, columns)

        if outcome.sql:
            final = translated(outcome.sql)
            self._translated.add(question.id)
            if final.problem:
                self._unread.add(question.id)
            if final.changed:
                self._changed.add(question.id)
            outcome = replace(outcome, sql=final.sql)
        candidates = (
            replace(each, sql=translated(each.sql).sql) if each.sql else each for each in outcome.candidates
        )
        return replace(outcome, candidates=tuple(candidates))

    @property
    def note(self) -> str:
        """What was translated, in sentences with counts."""
        unread = (
            f" {len(self._unread):,} could not be translated and were scored as written."
            if self._unread
            else ""
        )
        return (
            f"{len(self._translated):,} answers were translated from {self._written} by sqlglot before they were "
            f"scored; {len(self._changed):,} have another text than before.{unread}"
        )
