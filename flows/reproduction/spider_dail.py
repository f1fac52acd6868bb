"""DAIL-SQL's predictions on Spider dev, compared with the official test-suite evaluator's figures."""

from dataclasses import dataclass

from flows.reproduction.published import Figure, Reproduction, Sources, score
from flows.scoring.scorer import Scorable
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.outcome import Outcome
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.metrics.exact_match import differing_clauses

NAME = "spider-dail"
PREDICTIONS = "predictions/spider-dev-dail-sql-gpt-4.txt"
RIGHT = {"bird": 788, "spider": 809}
MATCHED = 681
EXECUTABLE = 972


@dataclass(frozen=True, slots=True)
class Explained:
    """Questions whose exact set match differs from the official evaluator's."""

    questions: frozenset[str]  # their ids
    ours: bool  # whether they match here; the official evaluator decides the opposite
    about: str  # common SQL feature
    why: str  # the reason


DIFFERENCES = (
    Explained(
        frozenset({"207", "354"}),
        True,
        "INNER JOIN",
        "the official parser stops at INNER, so that nothing of the prediction matches; it means JOIN.",
    ),
    Explained(
        frozenset({"599", "619", "621", "645", "720", "1016"}),
        True,
        "quoted identifiers",
        "the official parser does not read them as names, so that nothing of the prediction matches.",
    ),
    Explained(
        frozenset({"562"}),
        False,
        "ON ... OR ...",
        "the official parser drops OR and what follows, and so considers different joins equal.",
    ),
)


async def reproduce(sources: Sources) -> Reproduction:
    """Score the predictions by execution and by exact set match.

    Raises:
        DataError: a file is missing or malformed.
    """
    settings = sources.settings("spider-dev", "few-shot")
    benchmark = sources.benchmark(settings)
    predictions = sources.predictions(PREDICTIONS, benchmark)
    present = {q.database_id for q in benchmark.questions} - set(benchmark.missing)
    databases = {name: open_benchmark_database(benchmark, name, 0) for name in sorted(present)}
    questions = [question for question in benchmark.questions if question.database_id in databases]
    sources.progress.step(f"Scoring {len(questions)} predictions")
    async with SqlWorkers() as workers:
        outcomes = {question.id: Outcome(question.id, predictions.get(question.id)) for question in questions}
        report = await score(Scorable(benchmark, questions, databases), outcomes, workers)
    matched = {
        question.id
        for question in questions
        if not differing_clauses(
            predictions.get(question.id), benchmark.gold[question.id], benchmark.schemas[question.database_id]
        )
    }
    total = len(questions)
    return Reproduction(
        NAME,
        "DAIL-SQL with GPT-4 on Spider dev, against the official test-suite evaluator",
        (
            Figure("questions with a database", None, total, expected=EXECUTABLE),
            *(
                Figure(
                    f"execution accuracy, rule {rule}, of {total}",
                    None,
                    report.rules[rule].correct,
                    expected=right,
                )
                for rule, right in RIGHT.items()
            ),
            *(
                Figure(
                    f"{one.about}: {'a match' if one.ours else 'no match'} here only",
                    None,
                    len(one.questions & matched if one.ours else one.questions - matched),
                    expected=len(one.questions),
                )
                for one in DIFFERENCES
            ),
            Figure(
                f"exact set match, these put as there, of {total}",
                None,
                len(_as_official(matched)),
                expected=MATCHED,
            ),
        ),
        (
            f"Nothing was published for these {total} questions. {RIGHT['spider']} (execution) and {MATCHED} (exact "
            "set match) are what the official test-suite evaluator counts; the other figures are Crosscheck's own.",
            f"Exact set match here: {len(matched)} of {total}; the official evaluator counts {MATCHED}; its "
            "verdicts on single questions are not available.",
            *(f"{one.about} ({', '.join(sorted(one.questions, key=int))}): {one.why}" for one in DIFFERENCES),
            f"{sum(benchmark.missing.values())} questions have no database here: {', '.join(benchmark.missing)}.",
        ),
    )


def _as_official(matched: set[str]) -> set[str]:
    """Return the matching questions, with the official verdict for every explained difference."""
    taken = set(matched)
    for one in DIFFERENCES:
        taken = taken - one.questions if one.ours else taken | one.questions
    return taken
