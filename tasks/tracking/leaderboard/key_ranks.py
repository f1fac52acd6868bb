"""The ranking of runs by an answer key, beside the official one on the same questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from tasks.scoring.report import QuestionScore, is_right
from tasks.scoring.score import Accuracy, Differs
from tasks.scoring.significance import PairedTest, compare_runs
from tasks.scoring.variants import key_variant, score_by


@dataclass(frozen=True, slots=True)
class RankedByKey:
    """One run in the ranking of a key."""

    run_id: str
    ex: Accuracy  # by the key
    official: Accuracy  # by the official key, on the questions that the key counts
    rank: int  # by the key
    official_rank: int  # by the official key, on the questions that the key counts


@dataclass(frozen=True, slots=True)
class OrderChange:
    """Two runs whose order is another under the key: A is before B by the official key, and not by the other."""

    a: str  # id of the run
    b: str
    official: PairedTest  # B against A by the official key, on the questions that the key counts
    key: PairedTest  # B against A by the key, on the same questions


@dataclass(frozen=True, slots=True)
class KeyRanking:
    """The runs of a board, ranked by one answer key."""

    key: str
    questions: int  # questions that the key counts: the text is the one that the models saw
    left_out: Differs  # the others, by why they are not counted
    rows: tuple[RankedByKey, ...]  # the best by the key first
    # pairs of runs that the official key and this one put in another order, on the same questions
    changes: tuple[OrderChange, ...]
    # Kendall's tau-b of the scores by both keys on the same questions, -1 to 1; None of fewer than two different scores
    tau: float | None


def rank_by_key(key: str, rule: str, rows: Mapping[str, Sequence[QuestionScore]]) -> KeyRanking:
    """Rank runs of the same questions by a key.

    Args:
        key: name of the key.
        rule: comparison rule.
        rows: questions of each run by its id, with the verdicts of the key.
    """
    variant = key_variant(key)
    verdicts: dict[str, dict[str, bool]] = {}
    official: dict[str, dict[str, bool]] = {}
    for run_id, scores in rows.items():
        judged = [(row, variant.judge(row, rule)) for row in scores if row.executable]
        verdicts[run_id] = {row.question.id: right for row, right in judged if right is not None}
        official[run_id] = {
            row.question.id: is_right(row.final, rule) for row, right in judged if right is not None
        }
    common = set.intersection(*map(set, verdicts.values()))
    for table in (*verdicts.values(), *official.values()):
        for name in table.keys() - common:
            del table[name]
    shares = [{run_id: _share(found[run_id], common) for run_id in rows} for found in (verdicts, official)]
    by_key, by_official = shares
    found = [
        RankedByKey(
            run_id,
            by_key[run_id],
            by_official[run_id],
            _rank(run_id, by_key),
            _rank(run_id, by_official),
        )
        for run_id in rows
    ]
    first = next(iter(rows.values()))
    return KeyRanking(
        key,
        len(common),
        score_by(variant, [row for row in first if row.executable], rule).differs,
        tuple(sorted(found, key=lambda each: (each.rank, each.official_rank))),
        tuple(_changes(by_key, by_official, verdicts, official)) if common else (),
        kendall_tau([by_official[name].correct for name in rows], [by_key[name].correct for name in rows]),
    )


def _share(verdicts: Mapping[str, bool], common: set[str]) -> Accuracy:
    return Accuracy(sum(verdicts[name] for name in common), len(common))


def _rank(run_id: str, shares: Mapping[str, Accuracy]) -> int:
    return 1 + sum(other.correct > shares[run_id].correct for other in shares.values())


def _changes(
    by_key: Mapping[str, Accuracy],
    by_official: Mapping[str, Accuracy],
    verdicts: Mapping[str, Mapping[str, bool]],
    official: Mapping[str, Mapping[str, bool]],
) -> list[OrderChange]:
    found = []
    for one, other in combinations(by_key, 2):
        before = by_official[one].correct - by_official[other].correct
        now = by_key[one].correct - by_key[other].correct
        if (before > 0) - (before < 0) == (now > 0) - (now < 0):
            continue
        a, b = (one, other) if before > 0 or (before == 0 and now < 0) else (other, one)
        found.append(
            OrderChange(a, b, compare_runs(official[a], official[b]), compare_runs(verdicts[a], verdicts[b]))
        )
    return found


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return Kendall's tau-b of two lists of scores (Kendall, 1945), in which ties count half; None of constant scores.

    >>> kendall_tau([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    agreeing = tied_a = tied_b = 0
    pairs = list(combinations(zip(a, b, strict=True), 2))
    for (a1, b1), (a2, b2) in pairs:
        agreeing += ((a1 > a2) - (a1 < a2)) * ((b1 > b2) - (b1 < b2))
        tied_a += a1 == a2
        tied_b += b1 == b2
    different = (len(pairs) - tied_a) * (len(pairs) - tied_b)
    return agreeing / sqrt(different) if different else None
