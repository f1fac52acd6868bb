"""Two runs by score variants, beside their comparison by the official score."""

from collections.abc import Iterator, Sequence

from tasks.core.wording import counted, shorten
from tasks.scoring.report import QuestionScore
from tasks.scoring.significance import compare_runs
from tasks.scoring.variants import Judge, Variant, find_variants, score_by
from tasks.tracking.comparison.ranking import ranked
from tasks.tracking.comparison.run_comparison import VariantContrast
from tasks.tracking.warehouse.stored import StoredRun

_NAMED = 5


def compare_variants(
    a: StoredRun,
    b: StoredRun,
    rows: Sequence[tuple[QuestionScore, QuestionScore]],
    rule: str,
    confidence: float,
    why_not: str = "",
) -> Iterator[VariantContrast]:
    """Compare two runs by each variant that one of them has, on questions that both scored.

    A variant that one run lacks judges both. `why_not`: why the runs must not be ranked; "" if they may be.
    """
    sides = [row for row, _ in rows], [row for _, row in rows]
    of_a, of_b = (
        find_variants(stored.run.settings.get("benchmark") or {}, side)
        for stored, side in zip((a, b), sides, strict=True)
    )
    for name in dict.fromkeys((*of_a, *of_b)):
        own = of_a.get(name), of_b.get(name)
        variant = own[0] or own[1]
        assert variant is not None
        scores = [score_by(each, side, rule) if each else None for each, side in zip(own, sides, strict=True)]
        rights = [_rights((each or variant).judge, side, rule) for each, side in zip(own, sides, strict=True)]
        common, result = rights[0].keys() & rights[1].keys(), None
        problem = _problem(variant, rows)
        if not common:
            problem = "not tested: it leaves out every question that both runs scored."
        if not problem:
            one, other = ({id_: side[id_] for id_ in side if id_ in common} for side in rights)
            test = compare_runs(one, other, confidence=confidence)
            result = ranked(test, why_not, [pair for pair in rows if pair[0].question.id in common])
        yield VariantContrast(name, variant.title, scores[0], scores[1], result, problem)


def _problem(variant: Variant, rows: Sequence[tuple[QuestionScore, QuestionScore]]) -> str:
    unlike = [a.question.id for a, b in rows if variant.basis(a) != variant.basis(b)]
    if not unlike:
        return ""
    return (
        f"not tested: the golds of {counted(len(unlike), 'question')} differ between A and B "
        f"({shorten(unlike, _NAMED)}). Evaluate again with the same settings of the benchmark; paid replies are reused."
    )


def _rights(judge: Judge, rows: Sequence[QuestionScore], rule: str) -> dict[str, bool]:
    verdicts = ((row.question.id, judge(row, rule)) for row in rows)
    return {id_: right for id_, right in verdicts if right is not None}
