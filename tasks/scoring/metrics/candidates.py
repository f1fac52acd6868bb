"""Candidates: what k of them are worth, what they cost, and how well one is selected.

What k of n candidates of a question come to: pass@k and majority@k, each over all choices of k.

Both are exact expectations over the subsets of k candidates, every subset as likely as any other, so that n candidates
estimate any smaller number without bias and without drawing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb, sqrt
from statistics import NormalDist, fmean, pstdev
from typing import Any

from tasks.core.wording import DASH, counts, interval, percent, points
from tasks.documents.model import Table
from tasks.scoring.build_report import by_grade
from tasks.scoring.candidates import UNITS, VOTING, Ballot, CandidateBill, CandidateSetup, bill_of, step_of
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, QuestionScore, Ratio, is_right
from tasks.scoring.score import wilson

Polynomial = tuple[int, ...]
"""Number of subsets by their size: the coefficient of x^s counts those of s candidates."""


def pass_at_k(right: Sequence[bool], k: int) -> float:
    """Return the probability that at least one of k candidates is right (Chen et al., arXiv 2107.03374, equation 1).

    That is 1 - C(n - c, k) / C(n, k) with c of n candidates right.

    >>> pass_at_k([True, False, False, False], 1), pass_at_k([True, False, False, False], 2)
    (0.25, 0.5)
    """
    n, wrong = len(right), sum(not one for one in right)
    return 1.0 - comb(wrong, k) / comb(n, k)


def majority_at_k(ballot: Ballot, right: Sequence[bool], k: int) -> float:
    """Return the probability that the vote among k candidates chooses a right one.

    Of the C(n, k) subsets those in which the vote (`Ballot.winner`) chooses a candidate are counted, for each
    candidate, without going through them.

    >>> ballot = Ballot(("ok",) * 3, (0, 1, 1))
    >>> majority_at_k(ballot, [True, False, False], 1), majority_at_k(ballot, [True, False, False], 3)
    (0.3333333333333333, 0.0)
    """
    chosen = chosen_at_k(ballot, k)
    return sum(count for count, good in zip(chosen, right, strict=True) if good) / comb(len(right), k)


def chosen_at_k(ballot: Ballot, k: int) -> tuple[int, ...]:
    """Return, for each candidate, in how many subsets of k candidates the vote chooses it."""
    return tuple(_at(subsets, k) for subsets in _chosen(ballot.classes, ballot.leaders))


@cache
def _chosen(classes: tuple[int, ...], leaders: tuple[int, ...]) -> tuple[Polynomial, ...]:
    """Return, for each candidate, the number of subsets in which the vote chooses it, by their size."""
    places = range(len(leaders))
    groups: dict[int, list[int]] = {}
    for place in places:
        if classes[place] == VOTING:
            groups.setdefault(leaders[place], []).append(place)
    found = []
    for place in places:
        below = sum(classes[other] < classes[place] for other in places)
        if classes[place] == VOTING:
            found.append(_times(_elected(place, tuple(groups.values())), _any_of(below)))
        else:  # chosen only where nothing better is there, and nothing like it comes before
            later = sum(classes[other] == classes[place] for other in places if other > place)
            found.append(_times((0, 1), _any_of(below + later)))
    return tuple(found)


def _elected(place: int, groups: Sequence[Sequence[int]]) -> Polynomial:
    """Return the number of subsets of voting candidates in which one is chosen, by their size.

    It is the first chosen of its group, which has m votes; each other group has fewer, or as many that all come later.
    """
    own = next(group for group in groups if place in group)
    later = sum(other > place for other in own)
    total: Polynomial = ()
    for votes in range(1, later + 2):
        subsets: Polynomial = (*(0,) * votes, comb(later, votes - 1))
        for group in groups:
            if group is not own:
                behind = sum(other > place for other in group)
                fewer = tuple(comb(len(group), size) for size in range(votes))
                subsets = _times(subsets, (*fewer, comb(behind, votes)))
        total = _plus(total, subsets)
    return total


def _any_of(count: int) -> Polynomial:
    """Return the number of subsets of so many candidates, by their size."""
    return tuple(comb(count, size) for size in range(count + 1))


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    product = [0] * (len(one) + len(other) - 1)
    for size, count in enumerate(one):
        for more, others in enumerate(other):
            product[size + more] += count * others
    return tuple(product)


def _plus(one: Polynomial, other: Polynomial) -> Polynomial:
    return tuple(_at(one, size) + _at(other, size) for size in range(max(len(one), len(other))))


def _at(subsets: Polynomial, size: int) -> int:
    return subsets[size] if size < len(subsets) else 0


VOTE = "vote"


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """The candidates of one question."""

    right: tuple[bool, ...]  # whether each is right
    ballot: Ballot | None  # their results; None where the question failed before the vote
    selected: bool  # whether the final answer is right
    bill: CandidateBill  # what they cost

    @property
    def disagree(self) -> bool:
        """Whether some are right and some wrong."""
        return any(self.right) and not all(self.right)

    def passed(self, k: int) -> float:
        """Return pass@k of this question."""
        return pass_at_k(self.right, k)

    def voted(self, k: int) -> float:
        """Return majority@k of this question; 0 where it failed before the vote."""
        return majority_at_k(self.ballot, self.right, k) if self.ballot else 0.0


@METRICS.register("candidates")
@metric("Candidates", needs=("measured:candidates",), order=25)
def candidates(run: ScoredRun) -> Measurement | None:
    """Report pass@k and majority@k for every k, selection and cost; None without candidates.

    All shares are over the scored questions; one that failed has no candidate that is right. Intervals are Wilson's at
    95 %, which for a mean of probabilities is wider than needed. Where candidates disagree, that is some are right and
    some are wrong, `selection` is the share of questions whose final answer is right.
    """
    setup: CandidateSetup = run.measured["candidates"]
    scores = {row.question.id: _score(row, run.rule, setup) for row in run.scored}
    if setup.n == 1 or not scores:
        return None
    found = tuple(scores.values())
    curve = [_point(found, k, setup) for k in range(1, setup.n + 1)]
    passed, voted = ([each[name] for each in curve] for name in ("pass", "majority"))
    differing = [one for one in found if one.disagree]
    selection = Ratio(sum(one.selected for one in differing), len(differing))
    by_vote = Ratio(sum(one.voted(setup.n) for one in differing), len(differing))
    gain = _gain(found, setup)
    data = {
        "n": setup.n,
        "select": setup.select,
        **{f"pass@{k}": share.as_object() for k, share in enumerate(passed, 1)},
        **{f"majority@{k}": share.as_object() for k, share in enumerate(voted, 1)},
        "selection": selection.as_object(),
        "selection_by_vote": by_vote.as_object(),
        "gain": gain,
        "curve": [_plain(each) for each in curve],
        "by_difficulty": _by_difficulty(run, scores, setup.n),
    }
    shares = {"pass_at_k": passed, "majority_at_k": voted}
    costs = {f"{unit}_at_k": [each[unit] for each in curve] for unit in UNITS}
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
            for name, values in {**shares, **costs}.items()
            if all(value is not None for value in values)
        },
        data=data,
        lines=_lines(data, passed, voted[-1]),
        tables=candidate_tables(data),
    )


def candidate_tables(data: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the tables of the metric's object in the summary: by k, and by difficulty."""
    unit = cost_unit(data)
    rows = [
        (
            str(each["k"]),
            *(cell for name in ("pass", "majority") for cell in _share_cells(each, name)),
            _money(each[unit], unit),
        )
        for each in data["curve"]
    ]
    n = data["n"]
    header = ("k", "pass@k", "95 % interval", "majority@k", "95 % interval", f"{unit} per question")
    asked = data["curve"][0]["pass"]["total"]
    caption = f"means over {asked:,g} questions"
    tables = [Table(f"k of {n} candidates per question", header, tuple(rows), caption)]
    if data["by_difficulty"]:
        names = ("pass@1", f"majority@{n}", f"pass@{n}", "selected")
        graded = [
            (each["difficulty"], *(percent(Ratio.of(each[name])) for name in names), str(each["questions"]))
            for each in data["by_difficulty"]
        ]
        header = ("", "pass@1", f"majority@{n}", f"pass@{n}", data["select"], "questions")
        tables.append(Table("Candidates by difficulty", header, tuple(graded)))
    return tuple(tables)


def cost_unit(data: Mapping[str, Any]) -> str:
    """Return the unit of what k candidates cost: money where it is known and there is any, else tokens, else calls."""
    last = data["curve"][-1]
    return next((unit for unit in UNITS if last[unit]), "calls")


def _score(row: QuestionScore, rule: str, setup: CandidateSetup) -> CandidateScore:
    right = tuple(is_right(row.stages.get(step_of(number)), rule) for number in range(1, setup.n + 1))
    value = next(
        (record.value for record in row.outcome.stages if record.stage == VOTE and record.value), None
    )
    ballot = Ballot(tuple(value["statuses"]), tuple(value["leaders"])) if value else None
    return CandidateScore(right, ballot, is_right(row.final, rule), bill_of(row.outcome.stages, setup))


def _point(found: Sequence[CandidateScore], k: int, setup: CandidateSetup) -> dict[str, Any]:
    """Return what k candidates are worth and cost, as the mean over all choices of k."""
    total = sum((one.bill for one in found), CandidateBill()).written
    share = k / setup.n / len(found)
    return {
        "k": k,
        "pass": Ratio(sum(one.passed(k) for one in found), len(found)),
        "majority": Ratio(sum(one.voted(k) for one in found), len(found)),
        **{unit: None if (value := getattr(total, unit)) is None else value * share for unit in UNITS},
    }


def _gain(found: Sequence[CandidateScore], setup: CandidateSetup) -> dict[str, Any]:
    """Return what the selected answers gain on one candidate alone, with a 95 % interval, and what that costs.

    The interval is the normal one of the mean of the questions' differences. `extra` is what a question costs more than
    one candidate alone, of money 1,000 questions; for each point gained None where nothing is gained.
    """
    differences = [one.selected - one.passed(1) for one in found]
    mean, half = (
        fmean(differences),
        NormalDist().inv_cdf(0.975) * pstdev(differences) / sqrt(len(differences)),
    )
    bill = sum((one.bill for one in found), CandidateBill())
    more = {unit: _more(bill, unit, setup.n, len(found)) for unit in UNITS}
    usd = None if more["usd"] is None else 1000 * more["usd"]
    return {
        "points": 100 * mean,
        "interval": [100 * (mean - half), 100 * (mean + half)],
        "extra_usd_per_1000": usd,
        "extra_tokens": more["tokens"],
        "extra_calls": more["calls"],
        "usd_per_1000_and_point": None if usd is None or mean <= 0 else usd / (100 * mean),
    }


def _more(bill: CandidateBill, unit: str, n: int, questions: int) -> float | None:
    """Return what a question costs beyond one candidate; None where that is unknown."""
    written, selected = (getattr(one, unit) for one in (bill.written, bill.selected))
    return None if written is None or selected is None else (written * (n - 1) / n + selected) / questions


def _by_difficulty(run: ScoredRun, scores: Mapping[str, CandidateScore], n: int) -> list[dict[str, Any]]:
    rows = []
    for grade, group in by_grade(run.scored, run.rule, run.schemas).items():
        own = [scores[row.question.id] for row in group]
        shares = {
            "pass@1": sum(one.passed(1) for one in own),
            f"majority@{n}": sum(one.voted(n) for one in own),
            f"pass@{n}": sum(one.passed(n) for one in own),
            "selected": sum(one.selected for one in own),
        }
        plain = {name: Ratio(right, len(own)).as_object() for name, right in shares.items()}
        rows.append({"difficulty": grade, "questions": len(own), **plain})
    return rows


def _plain(point: Mapping[str, Any]) -> dict[str, Any]:
    shares = {name: point[name] for name in ("pass", "majority")}
    plain = {
        name: share.as_object() | {"interval": list(wilson(share.correct, share.total))}
        for name, share in shares.items()
    }
    return {**point, **plain}


def _lines(data: Mapping[str, Any], passed: Sequence[Ratio], voted: Ratio) -> tuple[str, ...]:
    n, gain, selection = data["n"], data["gain"], Ratio.of(data["selection"])
    written = (
        f"Candidates: {n} per question; means over {voted.total:,g} questions: "
        f"pass@1 {percent(passed[0])}, majority@{n} {percent(voted)} "
        f"(95 % interval {interval(*wilson(voted.correct, voted.total))}), pass@{n} (oracle) {percent(passed[-1])} "
        f"({counts(passed[-1])})"
    )
    usd, per_point = gain["extra_usd_per_1000"], gain["usd_per_1000_and_point"]
    more = f"{gain['extra_tokens'] or 0:,.0f} tokens and {gain['extra_calls']:,.1f} calls more per question"
    paid = f"${usd:,.2f} more per 1,000 questions" if usd else more
    low, high = (points(bound / 100) for bound in gain["interval"])
    selected = (
        f"Selection by {data['select']}: right in {counts(selection)} where candidates disagree; "
        f"{points(gain['points'] / 100)} points on one candidate (95 % interval {low} to {high}) "
        f"for {paid}" + (f", ${per_point:,.2f} for each point" if usd and per_point else "")
    )
    return written, selected


def _share_cells(point: Mapping[str, Any], name: str) -> tuple[str, str]:
    return percent(Ratio.of(point[name])), interval(*point[name]["interval"])


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


@METRICS.register("selection")
@metric("Selection", order=30, words=NAMES)
def selection(run: ScoredRun) -> Measurement | None:
    """Report what a stage that selects between the two before it did, under the headline rule; None without one.

    - `oracle`: questions that either candidate has right, of all scored.
    - `chosen_right`: questions it got right, of those that exactly one candidate has right.
    - `new_queries`: questions for which it wrote a query of its own, of those it was asked about; absent where the
      records do not say.
    """
    names = [stage.name for stage in run.report.stages]
    place = next((place for place, name in enumerate(names) if name.endswith(SELECTION)), 0)
    if place < 2:
        return None
    candidates, compared = names[place - 2 : place], names[place - 2 : place + 1]
    scored = run.scored
    right = [tuple(is_right(row.stages.get(name), run.rule) for name in compared) for row in scored]
    differing = [won for one, other, won in right if one != other]
    oracle = Ratio(sum(one or other for one, other, _ in right), len(scored))
    chosen_right = Ratio(sum(differing), len(differing))
    shares = {"oracle": oracle, "chosen_right": chosen_right}
    if choices := [choice for row in scored if (choice := _choice(row)) is not None]:
        shares["new_queries"] = Ratio(choices.count("new"), len(choices))
    made = (
        f"Selection: oracle {percent(oracle)} ({counts(oracle)}); where exactly one candidate is right it chose right "
        f"{counts(chosen_right)}"
        if differing
        else "Selection made no difference: both candidates were right, or both wrong, on every question."
    )
    return Measurement(
        further={f"selection/{name}": share for name, share in shares.items()},
        data={
            "candidates": candidates,
            "new_queries": None,
            **{name: share.as_object() for name, share in shares.items()},
        },
        lines=(made,),
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
