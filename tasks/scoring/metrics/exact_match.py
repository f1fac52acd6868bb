"""Exact set match of Spider: two queries clause by clause, without values (Yu et al., 2018, section 4)."""

from collections import Counter
from dataclasses import asdict
from functools import lru_cache
from typing import NamedTuple

from tasks.core.wording import counted, counts, percent, shorten
from tasks.database.schema import Schema
from tasks.documents.model import Table
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import UNGRADED, Measurement, Ratio
from tasks.sql.clauses import Clauses, clauses, grade
from tasks.sql.spider_match import official_match

MAX_IDS = 10
HARDNESS = ("easy", "medium", "hard", "extra")


@metric("Exact set match", order=50, words={"by_hardness": "of hardness"})
def exact_match(run: ScoredRun) -> Measurement | None:
    """Match the final SQL of every question with its gold, as Spider does, in all and by the gold's hardness.

    A question whose gold cannot be parsed matches nothing, and has no grade.
    """
    if not run.exact_match:
        return None
    compared = _compare_all(run)
    by_hardness: dict[str, Ratio] = {}
    for hardness in (*HARDNESS, UNGRADED):
        matches = [match.by_meaning for match in compared.values() if match.hardness == hardness]
        if matches:
            by_hardness[hardness] = Ratio(sum(matches), len(matches))
    total = Ratio(sum(match.by_meaning for match in compared.values()), len(run.scored))
    return Measurement(
        total,
        by_question={name: match.by_meaning for name, match in compared.items()},
        further={f"exact_match_by_hardness/{name}": ratio for name, ratio in by_hardness.items()},
        data=asdict(total) | {"by_hardness": {name: asdict(ratio) for name, ratio in by_hardness.items()}},
        tables=(
            Table(
                "Exact set match",
                ("hardness", "share", "matched"),
                tuple((name, percent(ratio), counts(ratio)) for name, ratio in by_hardness.items()),
            ),
        ),
    )


@metric("Exact set match, official parser", order=51)
def exact_match_official(run: ScoredRun) -> Measurement | None:
    """Match as the official evaluator does (`tasks.sql.spider_match`), and list where `exact_match` (here) differs."""
    if not run.exact_match:
        return None
    compared = _compare_all(run)
    matched_here = {name: match.officially for name, match in compared.items() if match.by_meaning}
    unread = [name for name, officially in matched_here.items() if officially is None]
    here_only = [name for name, officially in matched_here.items() if officially is False]
    there_only = [name for name, match in compared.items() if match.officially and not match.by_meaning]
    total = Ratio(sum(bool(match.officially) for match in compared.values()), len(run.scored))
    differences = (
        (unread, f"here only, its parser does not read {'it' if len(unread) == 1 else 'them'}"),
        (here_only, "here only, it compares nested queries as they are written"),
        (
            there_only,
            "there only, it ignores what follows a compared column (OR, LEFT) or the query, and takes columns with "
            "the same foreign key for one",
        ),
    )
    clauses_on_differences = "".join(
        f"; {counted(len(ids), 'match')} {why}: {shorten(ids, MAX_IDS)}" for ids, why in differences if ids
    )
    line = f"Exact set match, official parser: {percent(total)} ({counts(total)}){clauses_on_differences}"
    return Measurement(
        total,
        by_question={name: bool(match.officially) for name, match in compared.items()},
        further={
            "exact_match_official/unread_matches": len(unread),
            "exact_match_official/matches_here_only": len(here_only),
            "exact_match_official/matches_there_only": len(there_only),
        },
        data={
            **asdict(total),
            "unread_matches": unread,
            "matches_here_only": here_only,
            "matches_there_only": there_only,
        },
        lines=(line,),
    )


class _Compared(NamedTuple):
    """A predicted SQL and its gold."""

    hardness: str = UNGRADED  # of the gold
    by_meaning: bool = False  # whether they match by meaning
    officially: bool | None = None  # the official verdict; None where the official parser cannot read them


def _compare_all(run: ScoredRun) -> dict[str, _Compared]:
    schemas = ((row, run.schemas.get(row.question.database_id)) for row in run.scored)
    return {
        row.question.id: _compared(row.outcome.sql, row.gold_sql, schema) if schema else _Compared()
        for row, schema in schemas
    }


@lru_cache(maxsize=20_000)
def _compared(predicted: str | None, gold: str, schema: Schema) -> _Compared:
    gold_clauses = clauses(gold, schema)
    return _Compared(
        grade(gold_clauses) if gold_clauses else UNGRADED,
        match_by_meaning(predicted, gold, schema),
        official_match(predicted or "", gold, schema),
    )


def match_by_meaning(predicted: str | None, gold: str, schema: Schema) -> bool:
    """Return whether a predicted SQL and the gold match; they do not if one of them is missing or cannot be parsed.

    Compared are: selected expressions; tables and derived tables; conditions (each in any order); whether AND, OR or
    both are used in WHERE; GROUP BY and HAVING; ORDER BY, and whether there is a LIMIT with it; set operations and the
    queries behind them; whether each keyword is used, join conditions included. Values and DISTINCT are ignored.
    """
    predicted_clauses = clauses(predicted or "", schema)
    gold_clauses = clauses(gold, schema)
    if predicted_clauses is None or gold_clauses is None:
        return False
    return _match(predicted_clauses, gold_clauses)


def _match(predicted: Clauses, gold: Clauses) -> bool:
    """Compare two queries: queries within conditions must be equal, and those after UNION and the like must match."""
    return (
        Counter(predicted.select) == Counter(gold.select)
        and Counter(predicted.tables) == Counter(gold.tables)
        and Counter(predicted.where.terms) == Counter(gold.where.terms)
        and set(predicted.where.connectors) == set(gold.where.connectors)
        and predicted.group == gold.group
        and (not gold.group or predicted.having == gold.having)
        and predicted.order == gold.order
        and (not gold.order or predicted.limited == gold.limited)
        and [operation.kind for operation in predicted.operations] == [o.kind for o in gold.operations]
        and all(_match(p.query, g.query) for p, g in zip(predicted.operations, gold.operations, strict=True))
        and _keywords(predicted) == _keywords(gold)
    )


def _keywords(query: Clauses) -> frozenset[str]:
    """Return the keywords that a query uses, those of its joins included."""
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
    return frozenset(word for word, is_used in used.items() if is_used).union(query.joins)
