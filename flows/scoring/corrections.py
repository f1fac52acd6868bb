"""Verdicts by corrected golds, beside the official ones, and the check of these golds before anything is asked."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.benchmarks.benchmark import Benchmark
from tasks.core.records import Question
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.golds import either, judge_golds
from tasks.scoring.report import Change, Correction, QuestionScore

CHANGES: Mapping[str, Change] = {"replace": "replaced", "add": "added", "withdraw": "withdrawn"}
"""What a correction's action does to a gold."""
FINAL = "final"


@dataclass(frozen=True)
class Corrections:
    """The corrected golds of a benchmark; none where its settings name no file."""

    benchmark: Benchmark  # the whole split
    judge: Judge  # compares SQL with a gold

    @property
    def note(self) -> str:
        """How many entries wait for a person, in a sentence; "" for none."""
        undecided = self.benchmark.overlay.undecided if self.benchmark.overlay else 0
        return f"Undecided corrections, which change nothing: {undecided}" if undecided else ""

    def of(self, question: Question) -> Correction | None:
        """Return a question's correction, with nothing judged right; None where its gold is as it was."""
        overlay = self.benchmark.overlay
        entry = overlay.decided.get(question.id) if overlay else None
        if entry is None:
            return None
        golds = entry.sql
        if entry.action == "add":
            official = self.benchmark.gold.get(question.id)
            further = self.benchmark.further_gold.get(question.id, ())
            golds = (*([official] if official else []), *further, *entry.sql)
        return Correction(CHANGES[entry.action], golds, {}, entry.reason, entry.source)

    async def judged(self, score: QuestionScore, databases: Sequence[Database]) -> Correction | None:
        """Judge a question's final SQL by its corrected golds; None where its gold is as it was.

        Args:
            score: the question with its official verdict.
            databases: those of the question, at least one.
        """
        found, overlay = self.of(score.question), self.benchmark.overlay
        if found is None or overlay is None or found.change == "withdrawn":
            return found
        golds = overlay.entries[score.question.id].sql
        verdict = (await judge_golds(self.judge, databases, golds, {FINAL: score.outcome.sql})).all[FINAL]
        if found.change == "added":
            verdict = either(score.final, verdict)
        return replace(found, correct=verdict.correct)


async def check_corrections(
    benchmark: Benchmark,
    questions: Collection[Question],
    databases: Mapping[str, Database],
    workers: SqlWorkers,
) -> None:
    """Run every corrected gold of the questions that are asked, but undecided ones and those without a database.

    Raises:
        DataError: everything that is wrong with the file, SQL that does not run among it.
    """
    overlay = benchmark.overlay
    if overlay is None:
        return

    async def problem(question: Question, sql: str) -> str:
        """Run a SQL; say why it does not run, "" if it does."""
        database, timeout_s = databases[question.database_id], benchmark.settings.timeout_s
        found = await workers.execute(database, sql, rows=0, timeout_s=timeout_s)
        if found.ok:
            return ""
        why = " ".join(found.error.split()) or found.status
        return f"question {question.id}: the SQL does not run ({why}): {' '.join(sql.split())[:120]}"

    problems = await asyncio.gather(
        *(
            problem(question, sql)
            for question in questions
            if question.id in overlay.decided and question.database_id in databases
            for sql in overlay.decided[question.id].sql
        )
    )
    overlay.demand_valid(tuple(filter(None, problems)))
