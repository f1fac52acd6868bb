"""Measurement of a judge on answers that people labelled: NL2SQL-BUGs.

As in the paper, the judge sees the question, the schema and the SQL, and not the gold: a judge that only compared two
results would find nearly every label. Deviations: it also sees the first rows of the result, and our prompt.
"""

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flows.judging.judged import Opinions
from flows.judging.judging import JudgeSettings, ask_all
from flows.runtime.control import Control
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.benchmarks.nl2sql_bugs import BENCHMARK, NAME, LabelledAnswer, read_answers
from tasks.benchmarks.selection import select
from tasks.core.errors import DataError
from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.report import QuestionScore, Verdict, is_right
from tasks.scoring.statistics.detection import Detection, Labelled, detect
from tasks.settings.assemble import benchmark_settings
from tasks.tracking.measured_judges import keep_measured


@dataclass(frozen=True)
class Measurable:
    """Labelled answers that can be judged here."""

    benchmark: Benchmark = field(repr=False)
    sha256: str  # of the data set's files
    labels: Mapping[str, LabelledAnswer] = field(repr=False)  # by the answer's id
    rows: tuple[QuestionScore, ...] = field(repr=False)  # of those to judge, with the verdict by execution
    without_database: tuple[str, ...]  # ids of answers whose database is missing
    part: bool  # whether the user chose some of the others


@dataclass(frozen=True)
class Measured:
    """What was measured."""

    opinions: Opinions = field(repr=False)
    of: Measurable = field(repr=False)
    judge: Detection
    execution: Detection  # the same of execution accuracy, which is no judge
    kept: bool  # whether displays of opinions name it from now on

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "dataset": NAME,
            "sha256": self.of.sha256,
            "backbone": self.opinions.backbone,
            "measured": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            "answers": len(self.of.rows),
            "right": sum(self.of.labels[row.question.id].label for row in self.of.rows),
            "without_database": len(self.of.without_database),
            "judge": self.judge.as_object(),
            "execution": self.execution.as_object(),
        }


def measurable(
    settings: JudgeSettings, *, limit: int | None, ids: str | None, control: Control
) -> Measurable:
    """Read the labelled answers, and compare each with the gold by execution; no model is called.

    Raises:
        CrosscheckError: the files of the data set or of its benchmark are missing or malformed.
    """
    folders = settings.folders
    known = read_answers(folders.data)
    control.progress.step(f"Reading {BENCHMARK}")
    benchmark = folders.benchmark(benchmark_settings(BENCHMARK), control.progress)
    golds = {
        (each.database_id, _plain(each.text)): benchmark.gold.get(each.id, "") for each in benchmark.questions
    }
    labels = {each.id: each for each in known.answers}
    gold_of = {each.id: golds.get((each.db_id, _plain(each.question)), "") for each in known.answers}
    absent = tuple(name for name, each in labels.items() if each.db_id in benchmark.missing)
    usable = [_question(each) for name, each in labels.items() if name not in absent]
    if not usable:
        raise DataError(f"--measure {NAME}: no database of its answers is there. {benchmark.where_from}")
    chosen = select(usable, limit=limit, ids=ids)
    rows = asyncio.run(_by_execution(benchmark, chosen, labels, gold_of, control))
    return Measurable(benchmark, known.digest, labels, rows, absent, len(chosen) < len(usable))


def measure(found: Measurable, settings: JudgeSettings, control: Control) -> Measured:
    """Request an opinion on each answer, and keep the measures if every answer of the data set was sent.

    Raises:
        CrosscheckError: no opinion could be had.
        Interrupted: the user stopped it; replies so far are kept in the cache.
    """
    benchmark = found.benchmark
    opinions = Opinions(
        backbone=settings.backbone.name, rows=found.rows, timeout_s=benchmark.settings.timeout_s
    )
    ask_all(opinions, benchmark, settings, control)
    said = {name: each.right for name, each in opinions.opinions.items()}
    rule = benchmark.settings.rule
    by_execution = {row.question.id: is_right(row.final, rule) for row in found.rows if row.executable}
    judge, execution = (_detect(found, each) for each in (said, by_execution))
    whole = not found.part and not opinions.fatal and not opinions.unsent
    measured = Measured(opinions, found, judge, execution, whole)
    if whole:
        keep_measured(settings.folders.home, opinions.judge, measured.as_object())
    return measured


def _detect(found: Measurable, said: Mapping[str, bool]) -> Detection:
    labels = (found.labels[row.question.id] for row in found.rows)
    return detect(Labelled(each.label, said.get(each.id), each.kinds) for each in labels)


async def _by_execution(
    benchmark: Benchmark,
    questions: Sequence[Question],
    labels: Mapping[str, LabelledAnswer],
    golds: Mapping[str, str],
    control: Control,
) -> tuple[QuestionScore, ...]:
    """Return each answer with its verdict against the gold."""
    names = dict.fromkeys(question.database_id for question in questions)
    databases = {name: open_benchmark_database(benchmark, name, 0) for name in names}
    control.progress.step(f"Executing {len(questions):,} answers and their golds")
    async with SqlWorkers() as workers:
        judge = Judge(workers, (benchmark.settings.rule,), benchmark.settings.timeout_s)

        async def one(question: Question) -> QuestionScore:
            outcome, gold = Outcome(question.id, labels[question.id].sql), golds[question.id]
            if not gold:
                return QuestionScore(question, outcome, Verdict({}, "no_answer"), {}, "", executable=False)
            found = await judge.verdicts(databases[question.database_id], gold, {"answer": outcome.sql})
            # without the gold: what is not in the row is not shown
            return QuestionScore(question, outcome, found["answer"], {}, "")

        return tuple(await asyncio.gather(*map(one, questions)))


def _question(answer: LabelledAnswer) -> Question:
    return Question(answer.id, answer.question, answer.db_id, answer.evidence)


def _plain(text: str) -> str:
    return " ".join(text.split())
