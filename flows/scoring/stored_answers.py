"""The answers of finished runs, judged by answer keys without a model."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flows.benchmarks.databases import open_databases
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.scoring.keys import KeyJudge, check_keys
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.errors import ConfigurationError
from tasks.core.wording import counted, shorten
from tasks.database.database import Database, digests_of, locate
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.suite import open_like
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.report import QuestionScore
from tasks.settings.assemble import stored_benchmark
from tasks.settings.benchmark import check_key_names
from tasks.tracking.warehouse.stored import StoredRun


def judged_by_keys(
    runs: Sequence[StoredRun], items: Sequence[str], folders: Folders, progress: Progress
) -> dict[str, tuple[QuestionScore, ...]]:
    """Return the questions of runs of the same benchmark by run id, with the verdicts of answer keys.

    The stored answers are executed again where a key has another gold; no model is called. `items` are as in
    `benchmark.answer_keys`.

    Raises:
        CrosscheckError: a key cannot be read or is wrong, or the databases are not those of the runs.
    """
    try:
        check_key_names(tuple(items))
    except ValueError as error:
        raise ConfigurationError(f"{error}.") from None
    first = runs[0].run
    progress.step(f"Reading {first.benchmark}")
    settings = stored_benchmark(first.settings["benchmark"]).model_copy(update={"answer_keys": tuple(items)})
    benchmark = folders.benchmark(settings, progress)
    questions = {row.question.id: row.question for run in runs for row in run.rows if row.executable}
    databases = open_databases(benchmark, (each.database_id for each in questions.values()), progress)
    _demand_same_databases(runs, databases)

    async def judge_all() -> dict[str, tuple[QuestionScore, ...]]:
        async with SqlWorkers() as workers:
            with VerdictCache(folders.home.verdicts, workers.limits) as cache:
                await check_keys(benchmark, tuple(questions.values()), databases, workers, progress)
                rules = tuple(dict.fromkeys(run.run.rule for run in runs))
                judge = KeyJudge(benchmark, Judge(workers, rules, settings.timeout_s, cache))
                suites = _suites(benchmark, databases)
                return {run.run.run_id: await _judged(run, judge, suites, progress) for run in runs}

    return asyncio.run(judge_all())


async def _judged(
    run: StoredRun, judge: KeyJudge, suites: Mapping[str, Sequence[Database]], progress: Progress
) -> tuple[QuestionScore, ...]:
    done = 0

    async def one(row: QuestionScore) -> QuestionScore:
        nonlocal done
        if not row.executable:
            return row
        found = replace(row, keys=await judge.judged(row, suites[row.question.database_id]))
        done += 1
        progress.step(f"Judged {counted(done, 'answer')} of run {run.run.run_id}")
        return found

    return tuple(await asyncio.gather(*map(one, run.rows)))


def _suites(benchmark: Benchmark, databases: Mapping[str, Database]) -> dict[str, tuple[Database, ...]]:
    """Return each database with those of its test suite, by its id."""
    return {
        name: (database, *(open_like(database, locate(str(path))) for path in benchmark.suite_paths(name)))
        for name, database in databases.items()
    }


def _demand_same_databases(runs: Sequence[StoredRun], databases: Mapping[str, Database]) -> None:
    now = digests_of(databases)
    for run in runs:
        changed = [name for name, digest in now.items() if run.run.databases.get(name, digest) != digest]
        if changed:
            raise ConfigurationError(
                f"Databases changed since run {run.run.run_id}: {shorten(changed, 5)}. Its official verdicts are on "
                "the old ones. Evaluate it again: paid replies are reused."
            )
