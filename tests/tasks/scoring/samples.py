"""Short ways to write down questions and their scores."""

from collections.abc import Mapping

from tasks.core.outcome import Call, Candidate, Failure, Outcome, StageRecord, Usage
from tasks.core.records import Link, Question
from tasks.scoring.scores import QuestionScore, Verdict


def verdict(right: str = "", *, status: str = "ok", gold: str = "ok", rows: int | None = 1) -> Verdict:
    """Return a verdict that is right under the rules named, of "bird", "spider" and "strict"."""
    rules = {rule: rule in right.split() for rule in ("bird", "spider", "strict")}
    return Verdict(rules, status, row_count=rows if status == "ok" else None, gold_status=gold)


def score(
    question_id: str,
    right: str = "",
    *,
    stages: Mapping[str, str] | None = None,
    sql: str | None = "SELECT 1",
    gold_sql: str = "SELECT 1",
    gold: str = "ok",
    status: str = "ok",
    difficulty: str | None = None,
    database: str = "shop",
    links: dict[str, Link] | None = None,
    records: tuple[StageRecord, ...] = (),
    failure: Failure | None = None,
    executable: bool = True,
) -> QuestionScore:
    """Return one question's score; `stages` says per stage under which rules it is right."""
    named = stages or {}
    outcome = Outcome(
        question_id,
        sql,
        tuple(Candidate(name, sql) for name in named),
        links or {},
        records,
        failure,
    )
    final = verdict(right, gold=gold, status=status if sql else "no_answer")
    return QuestionScore(
        Question(question_id, f"question {question_id}", database, difficulty=difficulty),
        outcome,
        final if executable else Verdict({}, "no_answer"),
        {name: verdict(rules) for name, rules in named.items()},
        gold_sql,
        executable,
    )


def call(
    seconds: float = 1.0,
    *,
    cached: bool = False,
    tokens: int | None = 10,
    cost: float | None = 0.5,
    retries: int = 0,
) -> Call:
    """Return one call that reports input and output tokens only."""
    return Call("0" * 64, "m", Usage(input=tokens, output=tokens), cached, seconds, retries, "json", cost)


def record(label: str, *calls: Call, restored: bool = False) -> StageRecord:
    """Return a stage with its calls."""
    return StageRecord(label, label, None, restored, calls)
