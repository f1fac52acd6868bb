"""Counts for each stage of RSL-SQL on BIRD dev, from the authors' verdicts."""

from collections.abc import Mapping, Sequence

from flows.reproduction.published import Figure, Reproduction, Sources
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.rsl_sql_release import Release
from tasks.core.outcome import Outcome
from tasks.scoring.build_report import build_report
from tasks.scoring.metric import METRICS, ScoredRun
from tasks.scoring.report import QuestionScore, Ratio, Report, Verdict

NAME = "rsl-sql-stages"
RULE = "bird"
STAGES = {
    "1_preliminary_sql": "sql1",
    "2_augmented_sql": "sql2",
    "3_binary_selection": "sql3",
    "4_self_correction": "sql4",
}
RIGHT = {"sql1": 962, "sql2": 998, "sql3": 1019, "sql4": 1031}


async def reproduce(sources: Sources) -> Reproduction:
    """Count right, fixed and broken answers by stage.

    Raises:
        DataError: a file is missing or malformed.
    """
    settings = sources.settings("bird-dev", "rsl-sql")
    benchmark, release = sources.benchmark(settings), sources.release()
    every = _report(benchmark, release, tuple(STAGES))
    selected = _report(benchmark, release, ("1_preliminary_sql", "3_binary_selection"))
    selection = METRICS.get("selection").of(ScoredRun(every, {}))
    assert selection is not None, "four stages, of which the third selects"
    total = len(benchmark.questions)
    second, third = every.stages[1], selected.stages[1]
    oracle, disagreed = selection.further["selection/oracle"], selection.further["selection/chosen_right"]
    assert isinstance(oracle, Ratio) and isinstance(disagreed, Ratio)
    return Reproduction(
        NAME,
        "right answers after each stage, GPT-4o, BIRD dev (the authors' released verdicts)",
        (
            *(
                Figure(
                    f"{STAGES[stage.name].upper()} right, of {total:,}",
                    RIGHT[STAGES[stage.name]],
                    stage.correct,
                )
                for stage in every.stages
            ),
            Figure("SQL2 against SQL1: fixed", 92, second.fixed),
            Figure("SQL2 against SQL1: broken", 56, second.broken),
            Figure("SQL3 against SQL1: fixed", 81, third.fixed),
            Figure("SQL3 against SQL1: broken", 24, third.broken),
            Figure("questions that exactly one of SQL1 and SQL2 has right", 148, disagreed.total),
            Figure("of these, selected rightly", 109, disagreed.correct),
            Figure(f"oracle of SQL1 and SQL2, of {total:,}", 1054, oracle.correct),
        ),
    )


def _report(benchmark: Benchmark, release: Release, stages: Sequence[str]) -> Report:
    """Return a report with the released verdicts."""
    vectors = {stage: release.verdicts(f"correct/{STAGES[stage]}") for stage in stages}
    scores = []
    for question in benchmark.questions:
        verdicts: Mapping[str, Verdict] = {
            stage: Verdict({RULE: vector[int(question.id)]}, "ok") for stage, vector in vectors.items()
        }
        outcome = Outcome(question.id, release.sql[STAGES[stages[-1]]][int(question.id)])
        gold = benchmark.gold[question.id]
        scores.append(QuestionScore(question, outcome, verdicts[stages[-1]], verdicts, gold))
    return build_report(scores, rule=RULE, schemas={})
