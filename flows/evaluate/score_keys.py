"""Verdicts by answer keys, beside the official ones, and the check of the keys before anything is paid for."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from flows.runtime.control import Progress
from tasks.benchmarks.answer_keys import AnswerKey, KeyEntry
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.records import Question
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.suite import either, judge_golds
from tasks.scoring.report import Change, KeyVerdict, QuestionScore

CHANGES: Mapping[str, Change] = {"replace": "replaced", "add": "added", "withdraw": "withdrawn"}
"""What the action of an entry does to a gold."""
FINAL = "final"


@dataclass(frozen=True)
class KeyJudge:
    """The answer keys of a benchmark."""

    benchmark: Benchmark  # the whole split
    judge: Judge  # compares SQL with a gold

    def of(self, question: Question) -> dict[str, KeyVerdict]:
        """Return what each key changes of a question, by the key's name, with nothing judged right."""
        verdicts = ((key.name, self._verdict(key, question)) for key in self.benchmark.keys)
        return {name: verdict for name, verdict in verdicts if verdict is not None}

    def _verdict(self, key: AnswerKey, question: Question) -> KeyVerdict | None:
        if question.id in key.absent:
            return KeyVerdict("absent")
        entry = key.entries.get(question.id)
        if entry is None:
            return None
        if not entry.has_text_of(question):
            texts = (entry.question or question.text, entry.evidence or "")
            return KeyVerdict("other_text", entry.sql, {}, entry.reason, entry.source, *texts)
        return KeyVerdict(CHANGES[entry.action], self._golds(entry), {}, entry.reason, entry.source)

    def _golds(self, entry: KeyEntry) -> tuple[str, ...]:
        if entry.action != "add":
            return entry.sql
        official = self.benchmark.gold.get(entry.question_id)
        further = self.benchmark.further_gold.get(entry.question_id, ())
        return (*([official] if official else []), *further, *entry.sql)

    async def judged(self, score: QuestionScore, databases: Sequence[Database]) -> dict[str, KeyVerdict]:
        """Judge a question's final SQL by each key that changes its gold.

        Args:
            score: the question with its official verdict.
            databases: those of the question, at least one.
        """
        verdicts = self.of(score.question)
        for key in self.benchmark.keys:
            verdict = verdicts.get(key.name)
            if verdict is None or not verdict.counted:
                continue
            golds = key.entries[score.question.id].sql
            judged = (await judge_golds(self.judge, databases, golds, {FINAL: score.outcome.sql})).all[FINAL]
            if verdict.change == "added":
                judged = either(score.final, judged)
            verdicts[key.name] = replace(verdict, correct=judged.correct)
        return verdicts


async def check_keys(
    benchmark: Benchmark,
    questions: Collection[Question],
    databases: Mapping[str, Database],
    workers: SqlWorkers,
    progress: Progress,
) -> None:
    """Run the SQL of every key for the selected questions that have a database."""
    done = 0

    async def problem(question: Question, sql: str, total: int) -> str:
        """Run a SQL; say why it does not run, "" if it does."""
        nonlocal done
        database, timeout_s = databases[question.database_id], benchmark.settings.timeout_s
        execution = await workers.execute(database, sql, rows=0, timeout_s=timeout_s)
        done += 1
        progress.step(f"Checking the answer keys: {done:,} of {total:,} SQL")
        if execution.ok:
            return ""
        why = " ".join(execution.error.split()) or execution.status
        return f"question {question.id}: the SQL does not run ({why}): {' '.join(sql.split())[:120]}"

    for key in benchmark.keys:
        sqls = [
            (question, sql)
            for question in questions
            if question.id in key.entries
            and question.database_id in databases
            and key.entries[question.id].has_text_of(question)
            for sql in key.entries[question.id].sql
        ]
        done = 0
        problems = await asyncio.gather(*(problem(question, sql, len(sqls)) for question, sql in sqls))
        key.demand_valid(tuple(filter(None, problems)))
