"""Schema linking of RSL-SQL with GPT-4o on BIRD dev, from recorded replies, with Crosscheck's stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.pipelines.context import Context, PipelineRecord
from flows.pipelines.rsl_sql import link_both_ways
from flows.reproduction.published import Figure, Reproduction, Sources, replay
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import schema_only_database
from tasks.benchmarks.predictions.rsl_sql_release import Release
from tasks.core.records import Link
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.linking import LinkedQuestion, score_link, strict_recall_or_correct
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.pipeline import RslSqlSettings
from tasks.stage_runs.question_run import QuestionRun, in_question_run

NAME = "rsl-sql-linking"


@dataclass(frozen=True, slots=True)
class Published:
    """Published row of the table, GPT-4o on BIRD dev, with 4 decimals; the paper truncates to 2."""

    link: str  # which link
    nsr: float  # gold columns linked, in percent
    srr: float  # the published "SRR" in percent: every gold column linked, or SQL2 from that link right
    # tables, columns: linked per question
    tables: float
    columns: float
    strict_recall: int  # questions with every gold column linked, of 1,534; the released vectors' sum
    verdicts: str  # name of the released vector of strict recall
    correct: str  # name of the released vector of SQL2 from that link


TABLE = (
    Published("forward", 90.0467, 84.7458, 3.4355, 9.1297, 1101, "forward", "sql2_from_forward"),
    Published("backward", 95.5458, 90.4824, 5.3155, 10.2940, 1309, "backward", "sql2_from_backward"),
    Published("both", 97.6904, 94.3286, 5.4087, 13.0287, 1409, "bidirectional", "sql2"),
)


async def reproduce(sources: Sources) -> Reproduction:
    """Link every question of BIRD dev from the recorded replies and score the links.

    Schemas are read from the tables file, so no database is needed.

    Raises:
        DataError: a file is missing or malformed.
    """
    settings = sources.settings("bird-dev", "rsl-sql")
    benchmark, release = sources.benchmark(settings), sources.release()
    sources.progress.step(f"Linking {len(benchmark.questions):,} questions from the recorded replies")
    links = await _links(benchmark, release, settings)
    figures = [figure for row in TABLE for figure in _figures(row, benchmark, release, links)]
    return Reproduction(
        NAME,
        "schema linking, GPT-4o, BIRD dev (arXiv 2411.00073, and the authors' released outputs)",
        tuple(figures),
        (
            'The published "SRR" is strict_recall_or_correct: it also counts questions whose SQL2 from that link is '
            "right, which the paper's equation, strict recall, does not.",
        ),
    )


async def _links(
    benchmark: Benchmark, release: Release, settings: EvaluationSettings
) -> Mapping[str, Mapping[str, Link]]:
    """Return every question's links by name, by question id."""
    assert isinstance(settings.pipeline, RslSqlSettings)
    backbone = replay(release, benchmark)
    databases = {name: schema_only_database(benchmark, name) for name in benchmark.schemas}
    links = {}
    for question in benchmark.questions:
        runner = DatabaseRunner(databases[question.database_id], SqlWorkers(1), settings.benchmark.timeout_s)
        record = PipelineRecord()
        context = Context(settings.pipeline, runner, (), backbone, record)
        with in_question_run(QuestionRun(question)):
            view = await context.view_for(question, descriptions=False)
            await link_both_ways(question, view, context)
        links[question.id] = record.links
    return links


def _figures(
    row: Published, benchmark: Benchmark, release: Release, links: Mapping[str, Mapping[str, Link]]
) -> Sequence[Figure]:
    linked = [
        LinkedQuestion(
            benchmark.gold[question.id],
            benchmark.schemas[question.database_id],
            links[question.id].get(row.link),
        )
        for question in benchmark.questions
    ]
    score = score_link(row.link, linked)
    or_correct = strict_recall_or_correct(linked, release.verdicts(f"correct/{row.correct}"))
    ours = [score_link(row.link, [one]).strict_recall.correct == 1 for one in linked]
    theirs = release.verdicts(f"strict_recall/{row.verdicts}")
    agreeing = sum(one == other for one, other in zip(ours, theirs, strict=True))
    total = len(linked)
    return (
        Figure(f"{row.link}: NSR, %", row.nsr, _percent(score.nsr.value), 4),
        Figure(f'{row.link}: published "SRR", %', row.srr, _percent(or_correct.value), 4),
        Figure(f"{row.link}: tables per question", row.tables, score.avg_tables, 4),
        Figure(f"{row.link}: columns per question", row.columns, score.avg_columns, 4),
        Figure(f"{row.link}: strict recall, of {total:,}", row.strict_recall, score.strict_recall.correct),
        Figure(f"{row.link}: verdicts as released, of {total:,}", len(theirs), agreeing),
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
