"""RSL-SQL and BIRD's baseline on the superhero database, executed here."""

from flows.questions.demonstrations import QuestionExtras
from flows.questions.runner import QuestionInputs, QuestionRunner, Tools
from flows.reproduction.published import Figure, Reproduction, Sources, replay, score
from flows.scoring.scorer import Scorable
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import DataError
from tasks.core.outcome import Outcome
from tasks.database.sandbox.workers import SqlWorkers
from tasks.stage_runs.question_run import QuestionRun

NAME = "superhero"
DATABASE = "superhero"
RULE = "bird"
STAGES = {
    "1_preliminary_sql": ("sql1", 109),
    "2_augmented_sql": ("sql2", 112),
    "3_binary_selection": ("sql3", 112),
    "4_self_correction": ("sql4", 114),
}
"""Per stage the authors' vector of verdicts, and right answers expected on the rebuilt database."""
PREDICTIONS = "predictions/bird-dev-gpt-3.5-turbo-knowledge.json"
BASELINE_RIGHT = 84
"""Expected on the rebuilt database; no figure for this database alone was published."""


async def reproduce(sources: Sources) -> Reproduction:
    """Replay the recorded replies through the pipeline `rsl-sql`, and score it and the baseline's predictions.

    Raises:
        DataError: a file is missing or malformed.
    """
    settings = sources.settings("bird-dev", "rsl-sql")
    benchmark, release = sources.benchmark(settings), sources.release()
    questions = [question for question in benchmark.questions if question.database_id == DATABASE]
    if DATABASE in benchmark.missing:
        raise DataError(f"The database is not at {benchmark.location(DATABASE)}: nothing can be executed.")
    databases = {DATABASE: open_benchmark_database(benchmark, DATABASE, settings.pipeline.prompt.sample_rows)}
    selected = Scorable(benchmark, questions, databases)
    backbone = replay(release, benchmark)
    predictions = sources.predictions(PREDICTIONS, benchmark)
    async with SqlWorkers() as workers:
        inputs = QuestionInputs(databases, {question.id: QuestionExtras() for question in questions})
        runner = QuestionRunner(settings, inputs, Tools(backbone, workers))
        sources.progress.step(f"Replaying {len(questions)} questions")
        outcomes = {question.id: await runner.run(QuestionRun(question)) for question in questions}
        report = await score(selected, outcomes, workers)
        sources.progress.step("Scoring the baseline")
        baseline = {question.id: Outcome(question.id, predictions.get(question.id)) for question in questions}
        base = await score(selected, baseline, workers)
    right = {stage.name: stage.correct for stage in report.stages}
    published = {
        name: sum(release.verdicts(f"correct/{vector}")[int(question.id)] for question in questions)
        for name, (vector, _) in STAGES.items()
    }
    total = report.scored
    failures = [outcome.failure for outcome in outcomes.values() if outcome.failure]
    replies = "Every reply that the pipeline requested was in the recording."
    if failures:
        replies = (
            f"{len(failures)} of {len(outcomes)} questions failed, the first with: {failures[0].message}"
        )
    return Reproduction(
        NAME,
        f"{total} questions of BIRD dev on superhero, executed here, rule {RULE}",
        (
            *(
                Figure(
                    f"RSL-SQL replayed, {name}, of {total}",
                    published[name],
                    right.get(name),
                    expected=expected,
                )
                for name, (_, expected) in STAGES.items()
            ),
            Figure(
                f"BIRD's baseline (GPT-3.5 with evidence), of {total}",
                None,
                base.rules[RULE].correct,
                expected=BASELINE_RIGHT,
            ),
        ),
        (
            "Published: the authors' released verdicts on these questions. Expected here differs: the database was "
            "rebuilt, and their SQLite version differs. The baseline's figure for this database was not published.",
            replies,
        ),
    )
