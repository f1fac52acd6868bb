"""Measures of a judge, beside scikit-learn's."""

import random

import pytest
from sklearn.metrics import accuracy_score, precision_score, recall_score

from tasks.scoring.statistics.detection import Labelled, detect


@pytest.mark.parametrize("seed", range(5))
def test_measures_are_scikit_learns_and_a_missing_opinion_is_the_wrong_one_for_accuracy_and_recall(
    seed: int,
) -> None:
    rng = random.Random(seed)
    answers = []
    for _ in range(60):
        right = rng.random() < 0.6
        kinds = () if right else tuple(rng.sample(["join", "value", "column"], rng.randint(0, 2)))
        answers.append(Labelled(right, rng.choice([True, False, None]), kinds))
    found = detect(answers)
    labels = [each.right for each in answers]
    missed = [not each.right if each.opinion is None else each.opinion for each in answers]
    assert found.accuracy.ex == pytest.approx(accuracy_score(labels, missed))
    assert found.positive_recall.value == pytest.approx(recall_score(labels, missed, pos_label=True))
    assert found.negative_recall.value == pytest.approx(recall_score(labels, missed, pos_label=False))
    given = [(each.right, each.opinion) for each in answers if each.opinion is not None]
    true, said = zip(*given, strict=True)
    assert found.positive_precision.value == pytest.approx(precision_score(true, said, pos_label=True))
    assert found.negative_precision.value == pytest.approx(precision_score(true, said, pos_label=False))
    assert found.without_opinion == 60 - len(given)
    for kind, share in found.kinds.items():
        own = [each for each in answers if kind in each.kinds]
        assert (share.correct, share.total) == (sum(each.opinion is False for each in own), len(own))


def test_a_judge_that_calls_everything_right_has_no_negative_precision() -> None:
    found = detect([Labelled(True, True), Labelled(False, True, ("join",))])
    assert found.negative_precision.value is None and found.negative_precision.total == 0
    assert (found.negative_recall.value, found.kinds["join"].value, found.accuracy.ex) == (0.0, 0.0, 0.5)
