"""The counts of docs/ablations.md on changed defaults, from recorded outputs and published predictions."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from flows.evaluate.scorer import Scorable
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.database.database import Database
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.value_index import DatabaseValues
from tasks.scoring.linking import gold_link
from tasks.sql.parsing import parse
from tasks.sql.same_query import same_query
from tasks.sql.skeleton import skeleton, skeleton_length
from tasks.stages.dac import other_skeleton
from tasks.stages.question_run import QuestionRun, in_question_run
from tasks.stages.sea_sql import value_retrieval
from tests.published.rsl_sql_release import SQLS, read_release
from tests.published.scoring import predictions, read, score
from tests.published.test_rsl_sql import BASELINE, links_of
from tests.published.test_spider_dail import PREDICTIONS

pytestmark = pytest.mark.slow

Systems = Sequence[Mapping[str, Outcome]]
OTHERS = ("c3-chatgpt", "din-sql-gpt-4", "graphix-t5", "ta-sql-gpt-4")


def superhero(shared_data: Path, tmp_path: Path) -> tuple[Benchmark, list[Question], Database]:
    _, benchmark = read("bird-dev", "rsl-sql", shared_data, tmp_path)
    questions = [question for question in benchmark.questions if question.database_id == "superhero"]
    return benchmark, questions, open_benchmark_database(benchmark, "superhero", 3)


async def feedbacks(scorable: Scorable, systems: Systems, rule: str) -> Mapping[str, int]:
    """Count DAC's feedback with the gold's skeleton, to right and to wrong answers.

    "before": where the gold's skeleton is another one and not longer; "unfolded": where it is another one.
    """
    counted: Counter[str] = Counter()
    async with SqlWorkers() as workers:
        for outcomes in systems:
            for row in (await score(scorable, outcomes, workers)).rows:
                kind = "right" if row.final.correct[rule] else "wrong"
                sql, gold = row.outcome.sql, skeleton(row.gold_sql, "sqlite")
                own = skeleton(sql, "sqlite") if sql else None
                differs = own is not None and gold is not None and own != gold
                longer = skeleton_length(gold or "") > skeleton_length(own or "")
                counted[kind] += 1
                counted[f"{kind}, before"] += differs and not longer
                counted[f"{kind}, unfolded"] += differs
                counted[f"{kind}, now"] += other_skeleton(sql, gold, "sqlite", never_longer=False) is not None
    return counted


async def test_dac_finds_twice_as_many_wrong_answers_of_superhero_by_the_papers_rule(
    shared_data: Path, tmp_path: Path
) -> None:
    benchmark, questions, database = superhero(shared_data, tmp_path)
    release = read_release(shared_data)
    systems = [predictions(shared_data / BASELINE, benchmark)]
    systems += [{q.id: Outcome(q.id, release.sql[name][int(q.id)]) for q in questions} for name in SQLS]
    scorable = Scorable(benchmark, questions, {"superhero": database})
    counted = await feedbacks(scorable, systems, "bird")
    assert counted == {
        "wrong": 114, "wrong, before": 49, "wrong, unfolded": 96, "wrong, now": 96,
        "right": 531, "right, before": 192, "right, unfolded": 256, "right, now": 198,
    }  # fmt: skip


async def test_dac_finds_more_wrong_answers_of_spider_by_the_papers_rule(
    shared_data: Path, tmp_path: Path
) -> None:
    _, benchmark = read("spider-dev", "few-shot", shared_data, tmp_path)
    present = {question.database_id for question in benchmark.questions} - set(benchmark.missing)
    databases = {name: open_benchmark_database(benchmark, name, 0) for name in sorted(present)}
    questions = [question for question in benchmark.questions if question.database_id in databases]
    systems = [predictions(shared_data / PREDICTIONS, benchmark)]
    for name in OTHERS:
        lines = (shared_data / f"official-exact/{name}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        systems.append({str(row["position"]): Outcome(str(row["position"]), row["sql"]) for row in rows})
    scorable = Scorable(benchmark, questions, databases)
    counted = await feedbacks(scorable, systems, "spider")
    assert counted == {
        "wrong": 823, "wrong, before": 398, "wrong, unfolded": 662, "wrong, now": 647,
        "right": 4037, "right, before": 887, "right, unfolded": 1125, "right, now": 960,
    }  # fmt: skip
    empty = 0
    async with SqlWorkers() as workers:
        for question in questions:
            runner = DatabaseRunner(databases[question.database_id], workers, 60)
            empty += (await runner.run(benchmark.gold[question.id], 1)).empty
    assert empty == 49


async def test_foreign_keys_of_hidden_columns_are_few_that_golds_join_by(
    shared_data: Path, tmp_path: Path
) -> None:
    settings, benchmark = read("bird-dev", "rsl-sql", shared_data, tmp_path)
    links = await links_of((settings, benchmark), read_release(shared_data))
    counted: Counter[str] = Counter()
    for question in benchmark.questions:
        full = benchmark.schemas[question.database_id]
        reduced = full.reduced_to(links[question.id]["both"])
        tables = {table.name for table in reduced.tables}
        joined = {str(name).lower() for name in gold_link(benchmark.gold[question.id], full).columns}
        between = [key for key in full.foreign_keys if {key.table, key.parent} <= tables]
        counted["questions"] += len(between) > len(reduced.foreign_keys)
        for when, keys in (("before", between), ("now", reduced.foreign_keys)):
            counted[when] += len(keys)
            for key in keys:
                sides = ((key.table, key.columns), (key.parent, key.parent_columns))
                names = {f"{table}.{column}".lower() for table, columns in sides for column in columns}
                counted[f"joined, {when}"] += names <= joined
    assert counted == {
        "before": 11027, "now": 4525, "joined, before": 1326, "joined, now": 1288, "questions": 849,
    }  # fmt: skip


async def test_selections_and_corrections_of_the_recorded_steps(shared_data: Path, tmp_path: Path) -> None:
    _, questions, database = superhero(shared_data, tmp_path)
    sql = read_release(shared_data).sql
    identical = skipped = corrected = empty = 0
    async with SqlWorkers() as workers:
        runner = DatabaseRunner(database, workers, 30)
        for question in questions:
            sql1, sql2, sql3 = (sql[name][int(question.id)] for name in SQLS[:3])
            first, third = await runner.run(sql1, 1), await runner.run(sql3, 1)
            identical += same_query(sql1, sql2, "sqlite")
            skipped += same_query(sql1, sql2, "sqlite") and first.ok and not first.empty
            corrected += not third.ok or third.empty
            empty += third.ok and third.empty
    assert (len(questions) - identical, len(questions) - skipped) == (47, 49)
    assert (corrected, empty) == (3, 3)


async def test_retrieved_values_spell_what_golds_compare_with(shared_data: Path, tmp_path: Path) -> None:
    from sqlglot import exp

    benchmark, questions, database = superhero(shared_data, tmp_path)
    values = DatabaseValues(database, tmp_path / "values")
    rows = {value for table in database.schema.tables for column in table.columns for value in column.samples}
    counted: Counter[str] = Counter()
    for question in questions:
        with in_question_run(QuestionRun(question)):
            retrieved = {v for each in await value_retrieval(question, values, 2, 1000) for v in each.values}
        tree = parse(benchmark.gold[question.id], "sqlite").tree
        assert tree is not None
        texts = {literal.this for literal in tree.find_all(exp.Literal) if literal.is_string}
        for text in texts:
            if "%" in text or not any(character.isalpha() for character in text):
                continue
            kinds = ["all"]
            if text not in f"{question.text} {question.evidence}":
                kinds.append("spelled otherwise")
            for kind in kinds:
                counted[kind] += 1
                counted[f"{kind}, rows"] += text in rows
                counted[f"{kind}, retrieved"] += text in retrieved
    assert counted == {
        "all": 126, "all, rows": 50, "all, retrieved": 119,
        "spelled otherwise": 15, "spelled otherwise, rows": 9, "spelled otherwise, retrieved": 15,
    }  # fmt: skip
