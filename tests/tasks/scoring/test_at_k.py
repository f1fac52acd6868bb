"""pass@k and majority@k equal what going through every subset of k candidates gives."""

import random
from itertools import combinations
from math import comb
from statistics import fmean

import pytest

from tasks.scoring.execution.judge_job import Ballot
from tasks.scoring.metrics.candidates import chosen_at_k, majority_at_k, pass_at_k

STATUSES = ("ok", "ok", "ok", "ok", "empty", "error", "timeout", "no_answer")


def random_ballot(draw: random.Random, n: int) -> Ballot:
    statuses = tuple(draw.choice(STATUSES) for _ in range(n))
    values = [draw.randrange(3) if status == "ok" else status for status in statuses]
    first = [values.index(value) for value in values]
    failing = ("error", "timeout", "no_answer")
    return Ballot(statuses, tuple(at if s in failing else first[at] for at, s in enumerate(statuses)))


@pytest.mark.parametrize("seed", range(60))
def test_the_counted_votes_are_those_of_every_subset(seed: int) -> None:
    draw = random.Random(seed)
    n = draw.randint(1, 9)
    ballot = random_ballot(draw, n)
    right = [draw.random() < 0.4 for _ in range(n)]
    for k in range(1, n + 1):
        subsets = list(combinations(range(n), k))
        winners = [ballot.winner(subset) for subset in subsets]
        assert chosen_at_k(ballot, k) == tuple(winners.count(place) for place in range(n))
        assert majority_at_k(ballot, right, k) == pytest.approx(fmean(right[winner] for winner in winners))
        assert pass_at_k(right, k) == pytest.approx(fmean(any(right[p] for p in s) for s in subsets))


def test_sixty_four_candidates_are_counted_exactly() -> None:
    ballot = Ballot(("ok",) * 64, tuple(place % 4 for place in range(64)))
    assert sum(chosen_at_k(ballot, 32)) == comb(64, 32)
    assert majority_at_k(ballot, [place % 4 == 0 for place in range(64)], 64) == 1.0


@pytest.mark.parametrize(
    ("statuses", "leaders", "winner"),
    [
        (("ok", "ok", "ok"), (0, 1, 1), 1),  # the larger group
        (("ok", "ok", "ok", "ok"), (0, 1, 1, 0), 0),  # groups of one size: the one that came first
        (("empty", "empty", "ok"), (0, 0, 2), 2),  # no rows come last
        (("error", "empty", "error"), (0, 1, 2), 1),  # SQL that fails comes behind no rows
        (("no_answer", "timeout", "error"), (0, 1, 2), 1),  # all fail: the first that has a SQL
        (("no_answer", "no_answer"), (0, 1), 0),
    ],
)
def test_the_vote_prefers(statuses: tuple[str, ...], leaders: tuple[int, ...], winner: int) -> None:
    assert Ballot(statuses, leaders).winner() == winner


def test_contenders_are_the_groups_with_a_result_in_the_votes_order() -> None:
    ballot = Ballot(("error", "ok", "empty", "ok", "ok", "empty"), (0, 1, 2, 3, 3, 2))
    assert ballot.contenders == ((3, 4), (1,), (2, 5))
