"""Score variants: execution accuracy of the same answers, judged in another way, beside the official score.

A variant is one function of this module. It is in the summary, MLflow, the warehouse, comparisons, the leaderboard and
nightly runs as soon as it is registered:

    @variant("without_ties", "Without questions whose gold has a LIMIT")
    def without_ties(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Judge | None:
        return lambda row, rule: None if "LIMIT" in row.gold_sql else is_right(row.final, rule)

No rank and no gate of a nightly run depends on a variant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.scoring.report import QuestionScore, is_right
from tasks.scoring.score import Differs, Score

Judge = Callable[[QuestionScore, str], bool | None]
"""Whether the final answer of a question is right under a rule; None: the question is not in the denominator."""
Find = Callable[[Mapping[str, Any], Sequence[QuestionScore]], Judge | None]


@dataclass(frozen=True, slots=True)
class Variant:
    """A score variant."""

    name: str  # its key in `scores`; `ex_<name>` in MLflow and the warehouse
    title: str  # beside the score, in every display
    # returns its judge for a benchmark's settings (plain JSON) and the scored questions of a run; None where the
    # variant does not apply to them
    find: Find
    # what it changes of a question's gold, in one word; "" for nothing
    change: Callable[[QuestionScore], str]
    # what the verdict on a question depends on beside the answer: two runs are compared where it is equal
    basis: Callable[[QuestionScore], object]


VARIANTS: dict[str, Variant] = {}
"""The variants by name, in the order of the displays."""


def variant(
    name: str,
    title: str,
    change: Callable[[QuestionScore], str] = lambda row: "",
    basis: Callable[[QuestionScore], object] = lambda row: None,
) -> Callable[[Find], Find]:
    """Return a decorator that registers a variant."""

    def register(find: Find) -> Find:
        VARIANTS[name] = Variant(name, title, find, change, basis)
        return find

    return register


@variant(
    "corrected",
    "On corrected golds",
    lambda row: row.correction.change if row.correction else "",
    lambda row: (row.correction.change, row.correction.golds) if row.correction else None,
)
def corrected(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Judge | None:
    """Judge by the corrected golds of `benchmark.golds`; a withdrawn question is not counted."""
    return is_right_corrected if benchmark.get("golds") else None


def is_right_corrected(row: QuestionScore, rule: str) -> bool | None:
    """Return whether the final SQL is right under corrected golds; None where the question is withdrawn."""
    if row.correction is None:
        return is_right(row.final, rule)
    return None if row.correction.change == "withdrawn" else row.correction.correct.get(rule, False)


@variant("without_quarantine", "Without quarantined golds")
def without_quarantine(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Judge | None:
    """Leave out the questions of `benchmark.quarantine`, whose gold is known to be wrong."""
    listed = {str(name) for name in benchmark.get("quarantine") or ()}
    if not any(row.question.id in listed for row in rows):
        return None
    return lambda row, rule: None if row.question.id in listed else is_right(row.final, rule)


def judges(benchmark: Mapping[str, Any], rows: Iterable[QuestionScore]) -> dict[str, Judge]:
    """Return the judge of each variant that applies, by its name.

    Args:
        benchmark: settings of the benchmark, as plain JSON.
        rows: questions of a run; those that are not scored are ignored.
    """
    scored = [row for row in rows if row.executable]
    found = ((name, each.find(benchmark, scored)) for name, each in VARIANTS.items())
    return {name: judge for name, judge in found if judge is not None}


def scores(
    rows: Iterable[QuestionScore], rules: Sequence[str], benchmark: Mapping[str, Any]
) -> dict[str, Score]:
    """Return the score of a run under each rule, and that of each variant that applies.

    The official scores have the name of their rule. A variant's score under the headline rule has the variant's name,
    and under another rule both names: "corrected", "corrected_strict".

    Args:
        rows: questions of a run; those that are not scored are in no denominator.
        rules: comparison rules, the headline rule first.
        benchmark: settings of the benchmark, as plain JSON.
    """
    scored = [row for row in rows if row.executable]
    found = {rule: score_by(lambda row, rule: is_right(row.final, rule), scored, rule) for rule in rules}
    for name, judge in judges(benchmark, scored).items():
        for rule in rules:
            key = name if rule == rules[0] else f"{name}_{rule}"
            found[key] = score_by(judge, scored, rule, VARIANTS[name])
    return found


def score_by(
    judge: Judge, scored: Sequence[QuestionScore], rule: str, variant: Variant | None = None
) -> Score:
    """Return the score of scored questions by a judge under a rule; `variant` is the one that it belongs to."""
    verdicts = {row.question.id: judge(row, rule) for row in scored}
    counted = [right for right in verdicts.values() if right is not None]
    if variant is None:
        return Score(sum(counted), len(counted), rule=rule)
    official = {row.question.id: is_right(row.final, rule) for row in scored}
    return Score(
        sum(counted),
        len(counted),
        rule=rule,
        variant=variant.name,
        title=variant.title,
        differs=Differs(
            tuple(name for name, right in verdicts.items() if right and not official[name]),
            tuple(name for name, right in verdicts.items() if right is False and official[name]),
            tuple(name for name, right in verdicts.items() if right is None),
        ),
        changes={row.question.id: what for row in scored if (what := variant.change(row))},
    )
