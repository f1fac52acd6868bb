"""Exact set match of Spider: two queries clause by clause, without values (Yu et al., 2018, section 4)."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tasks.database.schema import Schema
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import UNGRADED, Measurement, Ratio
from tasks.sql.clauses import Clauses, clauses
from tasks.sql.hardness import grade
from tasks.tables import TextTable
from tasks.wording import counts, percent

HARDNESS = ("easy", "medium", "hard", "extra")


@dataclass(frozen=True, slots=True)
class ExactMatch:
    """Which clauses of a query match the gold's; values and DISTINCT are ignored throughout.

    Attributes:
        select: selected expressions, in any order.
        tables: tables and derived tables, in any order.
        where: conditions, in any order.
        connectors: whether AND, OR or both are used in WHERE.
        group: GROUP BY and HAVING.
        order: ORDER BY, and whether there is a LIMIT with it.
        operations: set operations and the queries behind them.
        keywords: whether each keyword is used, join conditions included.
    """

    select: bool
    tables: bool
    where: bool
    connectors: bool
    group: bool
    order: bool
    operations: bool
    keywords: bool

    @property
    def matched(self) -> bool:
        """Whether every clause matches."""
        return all(getattr(self, field.name) for field in fields(self))


NOTHING = ExactMatch(False, False, False, False, False, False, False, False)


@dataclass(frozen=True, slots=True)
class ExactMatchScore:
    """Exact set match of the final SQL of a run.

    Attributes:
        total: matching questions of all scored.
        by_hardness: the same by Spider's hardness of the gold, easiest first.
        matched: ids of the matching questions.
    """

    total: Ratio
    by_hardness: Mapping[str, Ratio]
    matched: frozenset[str] = field(repr=False)


@METRICS.register("exact_match")
@metric("Exact set match", needs=("exact_match",), order=50)
def exact_match(run: ScoredRun) -> Measurement:
    """Match the final SQL of every question with its gold, as Spider does, in all and by hardness."""
    found = score_exact_match(run)
    return Measurement(
        found.total,
        by_question={row.question.id: row.question.id in found.matched for row in run.scored},
        further={f"exact_match_by_hardness/{name}": ratio for name, ratio in found.by_hardness.items()},
        data={
            **found.total.as_object(),
            "by_hardness": {name: ratio.as_object() for name, ratio in found.by_hardness.items()},
        },
        tables=(
            TextTable(
                "Exact set match",
                ("hardness", "share", "matched"),
                tuple((name, percent(ratio), counts(ratio)) for name, ratio in found.by_hardness.items()),
            ),
        ),
    )


def score_exact_match(run: ScoredRun) -> ExactMatchScore:
    """Match clause by clause; a question whose gold cannot be parsed matches nothing, and has no grade."""
    matched: set[str] = set()
    by_hardness: dict[str, list[str]] = defaultdict(list)
    for row in run.scored:
        schema = run.schemas.get(row.question.database_id)
        gold = clauses(row.gold_sql, schema) if schema else None
        by_hardness[grade(gold) if gold else UNGRADED].append(row.question.id)
        predicted = clauses(row.outcome.sql, schema) if gold and schema and row.outcome.sql else None
        if gold and predicted and compare_clauses(predicted, gold).matched:
            matched.add(row.question.id)
    return ExactMatchScore(
        Ratio(len(matched), len(run.scored)),
        {
            name: Ratio(len(matched.intersection(by_hardness[name])), len(by_hardness[name]))
            for name in (*HARDNESS, UNGRADED)
            if name in by_hardness
        },
        frozenset(matched),
    )


def match_clauses(predicted: str | None, gold: str, schema: Schema) -> ExactMatch:
    """Compare a predicted SQL with the gold clause by clause.

    A prediction that is missing or cannot be parsed matches nothing, and so does everything if the gold cannot
    be parsed.
    """
    one, other = clauses(predicted or "", schema), clauses(gold, schema)
    return NOTHING if one is None or other is None else compare_clauses(one, other)


def compare_clauses(predicted: Clauses, gold: Clauses) -> ExactMatch:
    """Compare two queries; a query within a condition must be the same, one behind a set operation must match."""
    return ExactMatch(
        select=Counter(predicted.select) == Counter(gold.select),
        tables=Counter(predicted.tables) == Counter(gold.tables),
        where=Counter(predicted.where.terms) == Counter(gold.where.terms),
        connectors=set(predicted.where.connectors) == set(gold.where.connectors),
        group=predicted.group == gold.group and (not gold.group or predicted.having == gold.having),
        order=predicted.order == gold.order and (not gold.order or predicted.limited == gold.limited),
        operations=_operations_match(predicted, gold),
        keywords=_keywords(predicted) == _keywords(gold),
    )


def _operations_match(predicted: Clauses, gold: Clauses) -> bool:
    if [o.kind for o in predicted.operations] != [o.kind for o in gold.operations]:
        return False
    pairs = zip(predicted.operations, gold.operations, strict=True)
    return all(compare_clauses(one.query, other.query).matched for one, other in pairs)


def _keywords(query: Clauses) -> frozenset[str]:
    conditions = query.conditions
    used = {
        "where": bool(query.where.terms),
        "group": bool(query.group),
        "having": bool(query.having.terms),
        "order": bool(query.order),
        "limit": query.limited,
        "or": "or" in conditions.connectors,
        "not": any(term.negated for term in conditions.terms),
        "in": any(term.operator == "in" for term in conditions.terms),
        "like": any(term.operator == "like" for term in conditions.terms),
    }
    return frozenset(word for word, there in used.items() if there).union(query.joins)
