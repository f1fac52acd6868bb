"""Where the rules disagree."""

from tasks.scoring.metrics.rules import Disagreement, find_disagreements
from tests.tasks.scoring.samples import score


def test_only_questions_on_which_rules_disagree_are_listed() -> None:
    scores = [
        score("0", "bird spider strict"),
        score("1", "bird"),
        score("2", ""),
        score("3", "spider strict"),
        score("4", sql=None, executable=False),
    ]
    assert find_disagreements(scores) == (
        Disagreement("1", ("bird",), ("spider", "strict")),
        Disagreement("3", ("spider", "strict"), ("bird",)),
    )
