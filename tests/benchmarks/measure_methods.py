"""Measures, without a model, what the pipelines' inputs are worth on BIRD dev and Spider dev. A script:

    python -m tests.benchmarks.measure_methods --data FOLDER

It prints
- recall and precision of DAC's name matching, on the question alone and with its evidence;
- strict recall of the link of `rsl-sql-acl`, by hint source, from GPT-4o's recorded replies;
- how many prompts for SQL1 show a table that the model had not linked;
- how many golds differ from themselves with one column less in the length of a list only, and how many of their
  skeletons tell it.
"""

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from sqlglot import exp

from flows.pipelines.context import Context, PipelineRecord
from flows.pipelines.rsl_sql import link_both_ways
from flows.reproduction.sources import Sources
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Reply, Request
from tasks.backbone.recordings.file import Recording
from tasks.backbone.recordings.replay import RecordedBackbone
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import schema_only_database
from tasks.benchmarks.predictions.rsl_sql_release import recorded_replies
from tasks.core.dac_records import AlignedToken
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.alignment import whole_question
from tasks.retrieval.name_matching import question_tokens
from tasks.scoring.linking import LinkedQuestion, score_link
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import RslSqlSettings
from tasks.sql.elements import Elements, used_elements
from tasks.sql.parsing import parse
from tasks.sql.skeleton import skeleton
from tasks.stage_runs.question_run import QuestionRun, in_question_run
from tasks.stages.dac.entity_alignment import entities_of, link_by_name
from tasks.stages.links import read_link

LIST = re.compile(r"_(?: , _)+(?= (?:,|from)|$)")
"""A list of slots in a skeleton, and no part of a term."""
FIRST_ROWS = "pipeline.prompt.rows=first", "pipeline.prompt.missing=false"
"""The databases of BIRD dev are not at hand: prompts show schemas without values."""


def ratio(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} % ({part:,} of {whole:,})"


def name_matching(benchmark: Benchmark, *, evidence: bool) -> None:
    """Print how many gold columns, joins aside, the names in a question find, and how many of the found are gold."""
    hits = found = gold = 0
    for question in benchmark.questions:
        schema = benchmark.schemas[question.database_id]
        text = whole_question(question.text, question.evidence if evidence else "")
        tokens = [AlignedToken(token) for token in question_tokens(text)]
        linked = set(entities_of(link_by_name(tokens, schema, schema, Elements((), ())), schema).columns)
        wanted = set(used_elements(benchmark.gold[question.id], schema).columns)
        hits, found, gold = hits + len(linked & wanted), found + len(linked), gold + len(wanted)
    where = "question and evidence" if evidence else "question alone"
    click.echo(f"  {where:<24} column recall {ratio(hits, gold)}, precision {ratio(hits, found)}")


class Listening(RecordedBackbone):
    """GPT-4o's recorded replies; keeps each question's prompt for SQL1."""

    prompts: dict[str, str]

    async def complete(self, request: Request) -> Reply:
        assert request.origin is not None
        if request.origin.stage == "preliminary_sql":
            self.prompts[request.origin.question] = request.messages[-1].content
        return await super().complete(request)


def linked(
    sources: Sources, settings: EvaluationSettings, benchmark: Benchmark
) -> tuple[Mapping[str, PipelineRecord], Mapping[str, str]]:
    """Return every question's record and its prompt for SQL1, from the recorded replies."""
    release = sources.release(settings)
    backbone = Listening(Recording(release.folder, "", tuple(recorded_replies(release, benchmark.questions))))
    backbone.prompts = {}
    databases = {name: schema_only_database(benchmark, name) for name in benchmark.schemas}
    assert isinstance(settings.pipeline, RslSqlSettings)

    async def link() -> Mapping[str, PipelineRecord]:
        records = {}
        for question in benchmark.questions:
            runner = DatabaseRunner(databases[question.database_id], SqlWorkers(1), 1)
            records[question.id] = PipelineRecord()
            context: Context[Any] = Context(
                settings.pipeline, runner, (), MeteredBackbone(backbone), records[question.id]
            )
            with in_question_run(QuestionRun(question)):
                view = await context.view_for(question, descriptions=False)
                await link_both_ways(question, view, context)
        return records

    return asyncio.run(link()), backbone.prompts


def strict_recall(benchmark: Benchmark, records: Mapping[str, PipelineRecord]) -> str:
    links = [
        LinkedQuestion(
            benchmark.gold[one.id], benchmark.schemas[one.database_id], records[one.id].links.get("both")
        )
        for one in benchmark.questions
    ]
    score = score_link("both", links).strict_recall
    return ratio(score.correct, score.total)


def unlinked_tables_shown(
    benchmark: Benchmark, prompts: Mapping[str, str], named: Sequence[Mapping[str, Any]]
) -> str:
    """Return in how many prompts for SQL1 a table is linked that the model named neither alone nor with a column."""
    more = 0
    for question, reply in zip(benchmark.questions, named, strict=True):
        schema = benchmark.schemas[question.database_id]
        section = re.search(r"^### Linked tables\n(.*)$", prompts[question.id], re.MULTILINE)
        shown = read_link(schema, section[1].split(", ") if section else (), ()).tables
        more += not set(shown) <= set(read_link(schema, reply["tables"], reply["columns"]).tables)
    return ratio(more, len(benchmark.questions))


def plain_lists(benchmark: Benchmark) -> None:
    """Print how many golds are, without their first plain column, the same but for the length of a list."""
    same = apart = 0
    for question in benchmark.questions:
        dialect = benchmark.schemas[question.database_id].dialect
        cached = parse(benchmark.gold[question.id], dialect).tree
        tree = cached.copy() if cached is not None else None
        for select in tree.find_all(exp.Select) if tree is not None else ():
            plain = [one for one in select.expressions if isinstance(one.unalias(), exp.Column)]
            if len(plain) > 1:
                whole = skeleton(tree.sql(dialect), dialect) or ""
                plain[0].pop()
                fewer = skeleton(tree.sql(dialect), dialect) or ""
                if LIST.sub("_", whole) == LIST.sub("_", fewer):
                    same, apart = same + 1, apart + (whole != fewer)
                break
    total = len(benchmark.questions)
    click.echo(f"  differ from themselves with one column less in a list's length only: {ratio(same, total)}")
    click.echo(f"  told apart: {ratio(apart, same)}")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", required=True, help="folder of the benchmarks' files")
    data = options.parse_args().data
    with tempfile.TemporaryDirectory() as home:
        sources = Sources(Folders(Path(data), Home(Path(home))), Progress())
        settings = sources.settings
        bird = sources.benchmark(settings("bird-dev", "rsl-sql"))
        click.echo("DAC, name matching on BIRD dev")
        name_matching(bird, evidence=False)
        name_matching(bird, evidence=True)

        click.echo("rsl-sql-acl, strict recall on BIRD dev with GPT-4o's recorded replies")
        for source in ("question", "evidence", "both"):
            changed = (*FIRST_ROWS, f"pipeline.linking.forward.hint_source={source}")
            records, _ = linked(sources, settings("bird-dev", "rsl-sql-acl", *changed), bird)
            click.echo(f"  hints from {source:<10} {strict_recall(bird, records)}")

        click.echo("rsl-sql, prompts for SQL1 that show a table which the model had not linked")
        folder = sources.release().folder
        named = json.loads((folder / "forward_link.json").read_text(encoding="utf-8"))
        for shown in ("named", "with_hints"):
            _, prompts = linked(
                sources, settings("bird-dev", "rsl-sql", f"pipeline.linking.shown={shown}"), bird
            )
            click.echo(f"  {shown:<11} {unlinked_tables_shown(bird, prompts, named)}")

        spider = sources.benchmark(settings("spider-dev", "rsl-sql"))
        for title, benchmark in (("BIRD", bird), ("Spider", spider)):
            click.echo(f"Skeletons of the golds of {title} dev")
            plain_lists(benchmark)


if __name__ == "__main__":
    main()
