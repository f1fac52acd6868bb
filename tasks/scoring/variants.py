"""Score variants: execution accuracy of the same answers, judged in another way, beside the official score.

A function of this module that `FINDERS` names yields one variant, or several as the answer keys do; CONTRIBUTING.md has
an example. They are in the summary, MLflow, the warehouse, comparisons, the leaderboard and nightly runs.

No gate of a nightly run depends on a variant, and no rank but that of `leaderboard --by`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.scoring.scores import Accuracy, Differs, QuestionScore, Score, is_right
from tasks.settings.benchmark import DECIDED, key_name

Judge = Callable[[QuestionScore, str], bool | None]
"""Whether the final answer of a question is right under a rule; None: the question is not in the denominator."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A score variant that applies to a run."""

    name: str  # its key in `scores`; `ex_<name>` in MLflow
    title: str  # beside the score, in every display
    judge: Judge
    # what it changes of a question's gold, in one word; "" for nothing
    change: Callable[[QuestionScore], str] = lambda row: ""
    # what the verdict on a question depends on beside the answer: two runs are compared where it is equal
    basis: Callable[[QuestionScore], object] = lambda row: None


def answer_keys(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Iterator[Variant]:
    """Judge by each answer key of `benchmark.answer_keys`; a question that it does not answer is not counted."""
    for item in benchmark.get("answer_keys") or ():
        yield key_variant(key_name(item))


def key_variant(name: str) -> Variant:
    """Return the variant of an answer key, a file of corrected golds; `QuestionScore.keys` has its verdicts."""

    def judge(row: QuestionScore, rule: str) -> bool | None:
        by_key = row.keys.get(name)
        if by_key is None:  # the key leaves the gold as it is
            return is_right(row.final, rule)
        return by_key.correct.get(rule, False) if by_key.counted else None

    def change(row: QuestionScore) -> str:
        return row.keys[name].change if name in row.keys else ""

    def basis(row: QuestionScore) -> object:
        by_key = row.keys.get(name)
        return None if by_key is None else (by_key.change, by_key.golds)

    return Variant(name, title=f"By the key {name}", judge=judge, change=change, basis=basis)


def without_quarantine(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Iterator[Variant]:
    """Leave out the questions of `benchmark.quarantine`, whose gold is known to be wrong."""
    listed = {str(name) for name in benchmark.get("quarantine") or ()}

    def judge(row: QuestionScore, rule: str) -> bool | None:
        return None if row.question.id in listed else is_right(row.final, rule)

    if any(row.question.id in listed for row in rows):
        yield Variant("without_quarantine", "Without quarantined golds", judge)


def decided(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Iterator[Variant]:
    """Leave out golds that may return other rows on the same data (LIMIT among ties), if the settings look for them."""

    def judge(row: QuestionScore, rule: str) -> bool | None:
        return None if row.undecided else is_right(row.final, rule)

    if benchmark.get("find_undecided") and any(row.undecided is not None for row in rows):
        yield Variant(
            DECIDED, "Without golds that the data do not decide", judge, basis=lambda row: row.undecided
        )


FINDERS: tuple[Callable[[Mapping[str, Any], Sequence[QuestionScore]], Iterator[Variant]], ...] = (
    answer_keys,
    without_quarantine,
    decided,
)
"""Functions that yield the variants that apply, in the order of the displays.

Each is called with the settings of a benchmark, as plain JSON, and the scored questions of a run.
"""


def find_variants(benchmark: Mapping[str, Any], rows: Iterable[QuestionScore]) -> dict[str, Variant]:
    """Return the variants that apply, by name; questions that are not scored are ignored.

    `benchmark` has the settings of the benchmark, as plain JSON.
    """
    scored = [row for row in rows if row.executable]
    return {variant.name: variant for find in FINDERS for variant in find(benchmark, scored)}


def scores(
    rows: Iterable[QuestionScore], rules: Sequence[str], benchmark: Mapping[str, Any]
) -> dict[str, Score]:
    """Return the score of a run under each rule, and that of each variant that applies.

    The official scores have the name of their rule. A variant's score under the headline rule has the variant's name,
    and under another rule both names: "arcwise", "arcwise_strict". The first of the rules is the headline rule;
    `benchmark` has the settings of the benchmark, as plain JSON. Questions that are not scored are in no denominator.
    """
    scored = [row for row in rows if row.executable]
    by_name = {rule: score_by(None, scored, rule) for rule in rules}
    for name, variant in find_variants(benchmark, scored).items():
        for rule in rules:
            key = name if rule == rules[0] else f"{name}_{rule}"
            by_name[key] = score_by(variant, scored, rule)
    return by_name


def score_by(variant: Variant | None, scored: Sequence[QuestionScore], rule: str) -> Score:
    """Return the score of scored questions by a variant under a rule; None: the official score."""
    official = {row.question.id: is_right(row.final, rule) for row in scored}
    if variant is None:
        return Score(sum(official.values()), len(official), rule=rule)
    verdicts = {row.question.id: variant.judge(row, rule) for row in scored}
    changes = {row.question.id: variant.change(row) for row in scored}
    counted = [name for name, right in verdicts.items() if right is not None]

    def left_out(*why: str) -> tuple[str, ...]:
        return tuple(name for name, right in verdicts.items() if right is None and changes[name] in why)

    return Score(
        correct=sum(bool(verdicts[name]) for name in counted),
        total=len(counted),
        rule=rule,
        variant=variant.name,
        title=variant.title,
        differs=Differs(
            now_right=tuple(name for name, right in verdicts.items() if right and not official[name]),
            now_wrong=tuple(name for name, right in verdicts.items() if right is False and official[name]),
            withdrawn=left_out("withdrawn", ""),  # "": the variant changes no gold, as `without_quarantine`
            other_text=left_out("other_text"),
            absent=left_out("absent"),
        ),
        changes={name: change for name, change in changes.items() if change and change != "absent"},
        official=Accuracy(sum(official[name] for name in counted), len(counted)),
    )
