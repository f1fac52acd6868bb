"""Candidates: what k of them are worth, what they cost, and how well one is selected.

pass@k and majority@k are exact expectations over the subsets of k candidates, every subset as likely as any other, so
that n candidates estimate any smaller number without bias and without drawing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import zip_longest
from math import comb
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tasks.core.wording import DASH, UNKNOWN, counted, counts, interval, money, percent, points
from tasks.documents.model import Table
from tasks.scoring.breakdown import by_grade, stage_names
from tasks.scoring.candidates import UNITS, Bill, bills_of, step_of
from tasks.scoring.execution.judge_job import VOTING, Ballot
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import CONFIDENCE, Measurement, QuestionScore, Ratio, is_right, wilson
from tasks.scoring.significance import bootstrap_interval

if TYPE_CHECKING:
    from tasks.settings.pipeline import CandidateSettings

Polynomial = tuple[int, ...]
"""Number of subsets by their size: the coefficient of x^s counts those of s candidates."""


def pass_at_k(right: Sequence[bool], k: int) -> float:
    """Return the probability that at least one of k candidates is right (Chen et al., arXiv 2107.03374, equation 1).

    That is 1 - C(n - c, k) / C(n, k) with c of n candidates right.

    >>> pass_at_k([True, False, False, False], 1), pass_at_k([True, False, False, False], 2)
    (0.25, 0.5)
    """
    wrong = sum(not is_right for is_right in right)
    return 1.0 - comb(wrong, k) / comb(len(right), k)


def majority_at_k(ballot: Ballot, right: Sequence[bool], k: int) -> float:
    """Return the probability that the vote among k candidates (`Ballot.winner`) chooses a right one.

    >>> ballot = Ballot(("ok",) * 3, (0, 1, 1))
    >>> majority_at_k(ballot, [True, False, False], 1), majority_at_k(ballot, [True, False, False], 3)
    (0.3333333333333333, 0.0)
    """
    chosen = chosen_at_k(ballot, k)
    return sum(count for count, good in zip(chosen, right, strict=True) if good) / comb(len(right), k)


def chosen_at_k(ballot: Ballot, k: int) -> tuple[int, ...]:
    """Return, for each candidate, in how many subsets of k candidates the vote chooses it."""
    chosen = _chosen(ballot.classes, ballot.leaders)
    return tuple(subsets[k] if k < len(subsets) else 0 for subsets in chosen)


@cache
def _chosen(classes: tuple[int, ...], leaders: tuple[int, ...]) -> tuple[Polynomial, ...]:
    """Return, for each candidate of a ballot, how many subsets of each size there are in which the vote chooses it."""
    groups: dict[int, list[int]] = {}  # voting candidates with equal results
    for candidate, leader in enumerate(leaders):
        if classes[candidate] == VOTING:
            groups.setdefault(leader, []).append(candidate)
    chosen = []
    for candidate, rank in enumerate(classes):
        below = sum(other < rank for other in classes)
        if rank == VOTING:
            chosen.append(_unions(_elected(candidate, tuple(groups.values())), _subsets(below)))
        else:  # chosen only beside candidates of lower rank, and later ones of its rank
            later = classes[candidate + 1 :].count(rank)
            candidate_alone = (0, 1)
            chosen.append(_unions(candidate_alone, _subsets(below + later)))
    return tuple(chosen)


def _elected(candidate: int, groups: Sequence[Sequence[int]]) -> Polynomial:
    """Return how many subsets of the voting candidates there are, by size, in which the vote chooses one candidate.

    The vote chooses it if it is the first candidate of its group in the subset, and every other group has fewer
    candidates there, or equally many that all come later. `groups` are the candidates with equal results.
    """
    own_group = next(group for group in groups if candidate in group)
    later_in_group = sum(other > candidate for other in own_group)
    total: Polynomial = ()
    for votes in range(1, later_in_group + 2):
        # subsets of the own group: the candidate and votes - 1 later ones, so that all are of the size `votes`
        subsets: Polynomial = (*(0,) * votes, comb(later_in_group, votes - 1))
        for group in groups:
            if group is not own_group:
                fewer = tuple(comb(len(group), size) for size in range(votes))
                later = sum(other > candidate for other in group)
                subsets = _unions(subsets, (*fewer, comb(later, votes)))
        total = tuple(map(sum, zip_longest(total, subsets, fillvalue=0)))
    return total


def _subsets(count: int) -> Polynomial:
    """Return the number of subsets of `count` candidates, by their size."""
    return tuple(comb(count, size) for size in range(count + 1))


def _unions(first: Polynomial, second: Polynomial) -> Polynomial:
    """Multiply two polynomials: count, by size, the unions of a subset of the first and a subset of the second."""
    product = [0] * (len(first) + len(second) - 1)
    for size, count in enumerate(first):
        for more, others in enumerate(second):
            product[size + more] += count * others
    return tuple(product)


VOTE = "vote"


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """The candidates of one question."""

    right: tuple[bool, ...]  # whether each is right
    ballot: Ballot | None  # their results; None where the question failed before the vote
    selected: bool  # whether the final answer is right
    written: Bill  # what writing them cost
    selecting: Bill  # what selecting cost

    def voted(self, k: int) -> float:
        """Return majority@k of this question; 0 where it failed before the vote."""
        return majority_at_k(self.ballot, self.right, k) if self.ballot else 0.0


@metric("Candidates", order=25)
def candidates(run: ScoredRun) -> Measurement | None:
    """Report pass@k and majority@k for every k, selection and cost; None without candidates.

    Shares are over the scored questions; a question that failed has no right candidate. Intervals are Wilson's at 95 %,
    which for a mean of probabilities is wider than needed. `selection` is over the questions that have both right and
    wrong candidates: the share whose final answer is right; `selection_by_vote`: what the vote would reach there.
    """
    setup: CandidateSettings | None = run.measured.get("candidates")
    if setup is None or setup.n == 1 or not run.scored:
        return None
    scores = {row.question.id: _score(row, run.rule, setup) for row in run.scored}
    questions = tuple(scores.values())
    curve = [_point(questions, k, setup) for k in range(1, setup.n + 1)]
    passed = [Ratio.of(point["pass"]) for point in curve]
    voted = [Ratio.of(point["majority"]) for point in curve]
    differing = [question for question in questions if any(question.right) and not all(question.right)]
    selection = Ratio(sum(question.selected for question in differing), len(differing))
    by_vote = Ratio(sum(question.voted(setup.n) for question in differing), len(differing))
    data = {
        "n": setup.n,
        "select": setup.select,
        **{f"pass@{k}": asdict(share) for k, share in enumerate(passed, 1)},
        **{f"majority@{k}": asdict(share) for k, share in enumerate(voted, 1)},
        "selection": asdict(selection),
        "selection_by_vote": asdict(by_vote),
        "gain": _gain(questions, setup),
        "curve": curve,
        "by_difficulty": _by_difficulty(run, scores, setup.n),
    }
    costs = {f"{unit}_at_k": [point[unit] for point in curve] for unit in UNITS}
    return Measurement(
        further={
            "candidates/pass_at_1": passed[0],
            "candidates/pass_at_n": passed[-1],
            "candidates/majority_at_n": voted[-1],
            "candidates/selection": selection,
            "candidates/selection_by_vote": by_vote,
        },
        series={
            f"candidates/{name}": values
            for name, values in {"pass_at_k": passed, "majority_at_k": voted, **costs}.items()
            if None not in values  # an unknown cost
        },
        data=data,
        lines=_lines(data, passed, voted[-1]),
    )


def candidate_tables(data: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the tables of the metric's object in the summary: by k, and by difficulty."""
    all_candidates = data["curve"][-1]
    unit = next(
        (unit for unit in UNITS if all_candidates[unit]), "calls"
    )  # the first that is known and not 0
    rows = [
        (
            str(point["k"]),
            percent(Ratio.of(point["pass"])),
            interval(*point["pass"]["interval"]),
            percent(Ratio.of(point["majority"])),
            interval(*point["majority"]["interval"]),
            _money(point[unit], unit),
        )
        for point in data["curve"]
    ]
    n = data["n"]
    header = ("k", "pass@k", "95 % interval", "majority@k", "95 % interval", f"{unit} per question")
    questions = int(data["curve"][0]["pass"]["total"])
    caption = f"means over {counted(questions, 'question')}"
    tables = [Table(f"k of {n} candidates per question", header, tuple(rows), caption)]
    if data["by_difficulty"]:
        names = ("pass@1", f"majority@{n}", f"pass@{n}", "selected")
        graded = [
            (
                group["difficulty"],
                *(percent(Ratio.of(group[name])) for name in names),
                str(group["questions"]),
            )
            for group in data["by_difficulty"]
        ]
        header = ("", "pass@1", f"majority@{n}", f"pass@{n}", data["select"], "questions")
        tables.append(Table("Candidates by difficulty", header, tuple(graded)))
    return tuple(tables)


def _score(row: QuestionScore, rule: str, setup: "CandidateSettings") -> CandidateScore:
    right = tuple(is_right(row.stages.get(step_of(number)), rule) for number in range(1, setup.n + 1))
    votes = (record.value for record in row.outcome.stages if record.stage == VOTE and record.value)
    vote = next(votes, None)
    ballot = Ballot(tuple(vote["statuses"]), tuple(vote["leaders"])) if vote else None
    return CandidateScore(right, ballot, is_right(row.final, rule), *bills_of(row.outcome.stages))


def _point(scores: Sequence[CandidateScore], k: int, setup: "CandidateSettings") -> dict[str, Any]:
    """Return what k candidates of a question are worth and cost, as the mean over all choices of k of them.

    A unit of cost is None if the bills do not know it.
    """
    total = sum((score.written for score in scores), Bill())  # of all n candidates of all questions
    share_of_total = k / setup.n / len(scores)  # of k candidates of one question
    point = {
        "k": k,
        "pass": _with_interval(sum(pass_at_k(score.right, k) for score in scores), len(scores)),
        "majority": _with_interval(sum(score.voted(k) for score in scores), len(scores)),
    }
    for unit in UNITS:
        cost = getattr(total, unit)
        point[unit] = None if cost is None else cost * share_of_total
    return point


def _with_interval(right: float, total: int) -> dict[str, Any]:
    return asdict(Ratio(right, total)) | {"interval": list(wilson(right, total))}


def _gain(scores: Sequence[CandidateScore], setup: "CandidateSettings") -> dict[str, Any]:
    """Return how many points the selected answers gain over a single candidate, and how much more they cost.

    `interval` is that of the mean difference per question (`bootstrap_interval`), in points. `extra_...` are the
    additional costs per question, US dollars per 1,000 questions; None where unknown. `usd_per_1000_and_point` is None
    where nothing is gained, too.
    """
    differences = [score.selected - pass_at_k(score.right, 1) for score in scores]
    mean = fmean(differences)
    distinct = Counter(sorted(differences))
    bounds = bootstrap_interval(tuple(distinct), tuple(distinct.values()), CONFIDENCE)
    writing = sum((score.written for score in scores), Bill())
    selecting = sum((score.selecting for score in scores), Bill())
    extra: dict[str, float | None] = {}
    for unit in UNITS:
        of_writing, of_selecting = getattr(writing, unit), getattr(selecting, unit)
        extra[unit] = None
        if of_writing is not None and of_selecting is not None:
            of_further_candidates = of_writing * (setup.n - 1) / setup.n
            extra[unit] = (of_further_candidates + of_selecting) / len(scores)
    usd = None if extra["usd"] is None else 1000 * extra["usd"]
    return {
        "points": 100 * mean,
        "interval": [100 * bound for bound in bounds],
        "extra_usd_per_1000": usd,
        "extra_tokens": extra["tokens"],
        "extra_calls": extra["calls"],
        "usd_per_1000_and_point": None if usd is None or mean <= 0 else usd / (100 * mean),
    }


def _by_difficulty(run: ScoredRun, scores: Mapping[str, CandidateScore], n: int) -> list[dict[str, Any]]:
    rows = []
    for grade, group in by_grade(run.scored).items():
        scores_of_group = [scores[row.question.id] for row in group]
        shares = {
            "pass@1": sum(pass_at_k(score.right, 1) for score in scores_of_group),
            f"majority@{n}": sum(score.voted(n) for score in scores_of_group),
            f"pass@{n}": sum(pass_at_k(score.right, n) for score in scores_of_group),
            "selected": sum(score.selected for score in scores_of_group),
        }
        plain = {name: asdict(Ratio(right, len(scores_of_group))) for name, right in shares.items()}
        rows.append({"difficulty": grade, "questions": len(scores_of_group), **plain})
    return rows


def _lines(data: Mapping[str, Any], passed: Sequence[Ratio], voted: Ratio) -> tuple[str, ...]:
    """Return the sentences on the candidates that were written, and on the one that was selected.

    `passed` are pass@1 to pass@n, and `voted` is majority@n. Tokens and calls are named where money is 0 or unknown.
    """
    n = data["n"]
    gain = data["gain"]
    selection = Ratio.of(data["selection"])
    writing = (
        f"Candidates: {n} per question; means over {counted(int(voted.total), 'question')}: "
        f"pass@1 {percent(passed[0])}, majority@{n} {percent(voted)} "
        f"(95 % interval {interval(*wilson(voted.correct, voted.total))}), pass@{n} (oracle) {percent(passed[-1])} "
        f"({counts(passed[-1])})"
    )
    usd, per_point = gain["extra_usd_per_1000"], gain["usd_per_1000_and_point"]
    tokens = UNKNOWN if gain["extra_tokens"] is None else f"{gain['extra_tokens']:,.0f}"
    tokens_and_calls = f"{tokens} tokens and {gain['extra_calls']:,.1f} calls more per question"
    cost = f"{money(usd)} more per 1,000 questions" if usd else tokens_and_calls
    cost_per_point = f", {money(per_point)} for each point" if usd and per_point else ""
    bounds = " to ".join(points(bound / 100) for bound in gain["interval"])
    selected = (
        f"Selection by {data['select']}: right in {counts(selection)} where candidates disagree; "
        f"{points(gain['points'] / 100)} points on one candidate (95 % interval {bounds}) for {cost}{cost_per_point}"
    )
    return writing, selected


def _money(value: float | None, unit: str) -> str:
    if value is None:
        return DASH
    return f"${value:,.6f}" if unit == "usd" else f"{value:,.1f} {unit}"


SELECTION = "selection"
NAMES = {
    "oracle": "either is right (oracle)",
    "chosen_right": "chosen rightly, of those with one right",
    "new_queries": "wrote a query of its own",
}


@metric("Selection", order=30, words=NAMES)
def selection(run: ScoredRun) -> Measurement | None:
    """Report how a stage selected between the SQL of the two stages before it; None without such a stage.

    - `oracle`: questions for which either candidate is right, of all scored.
    - `chosen_right`: questions for which the stage chose a right one, of those with exactly one right candidate.
    - `new_queries`: questions for which the stage wrote a query of its own, of those on which it ran; absent
      where the records do not say.
    """
    names = stage_names(run.scored)
    position = next((position for position, name in enumerate(names) if name.endswith(SELECTION)), 0)
    if position < 2:  # no such stage, or fewer than two before it
        return None
    *candidates, selected = names[position - 2 : position + 1]
    right = [
        tuple(is_right(row.stages.get(name), run.rule) for name in (*candidates, selected))
        for row in run.scored
    ]
    differing = [chosen for first, second, chosen in right if first != second]
    oracle = Ratio(sum(first or second for first, second, _ in right), len(right))
    chosen_right = Ratio(sum(differing), len(differing))
    shares = {"oracle": oracle, "chosen_right": chosen_right}
    choices = [choice for choice in map(_choice, run.scored) if choice is not None]
    if choices:
        shares["new_queries"] = Ratio(choices.count("new"), len(choices))
    line = "Selection made no difference: both candidates were right, or both wrong, on every question."
    if differing:
        line = (
            f"Selection: oracle {percent(oracle)} ({counts(oracle)}); where exactly one candidate is right it chose "
            f"right {counts(chosen_right)}"
        )
    return Measurement(
        further={f"selection/{name}": share for name, share in shares.items()},
        data={
            "candidates": candidates,
            "new_queries": None,  # unless `shares` has it
            **{name: asdict(share) for name, share in shares.items()},
        },
        lines=(line,),
        tables=(
            Table(
                f"Selection between {' and '.join(candidates)}",
                ("", "share", "questions"),
                tuple((NAMES[name], percent(share), counts(share)) for name, share in shares.items()),
            ),
        ),
    )


def _choice(row: QuestionScore) -> Any:
    """Return which candidate selection chose; None where it did not run or does not say."""
    for record in row.outcome.stages:
        if record.stage.endswith(SELECTION) and isinstance(record.value, Mapping):
            return record.value.get("choice")
    return None
