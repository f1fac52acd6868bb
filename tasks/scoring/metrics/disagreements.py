"""Questions on which the comparison rules disagree: where a score depends on the rule."""

from collections.abc import Iterable
from dataclasses import dataclass

from tasks.core.wording import and_more, counted, shorten
from tasks.documents.model import Table
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, QuestionScore

MOST_IDS, MOST_ROWS = 10, 100


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One question whose final SQL is right under some rules and wrong under others."""

    question_id: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def find_disagreements(scores: Iterable[QuestionScore]) -> tuple[Disagreement, ...]:
    """Return the questions on which the rules disagree, in the order given."""
    found = []
    for score in scores:
        correct = score.final.correct
        right = tuple(rule for rule in correct if correct[rule])
        wrong = tuple(rule for rule in correct if not correct[rule])
        if right and wrong:
            found.append(Disagreement(score.question.id, right, wrong))
    return tuple(found)


@METRICS.register("disagreements")
@metric("The rules disagree", unit="questions", better=None, order=20)
def disagreements(run: ScoredRun) -> Measurement:
    """List the questions on which the comparison rules disagree."""
    found = find_disagreements(run.scored)
    ids = [each.question_id for each in found]
    line = f"The rules disagree on {counted(len(ids), 'question')}: {shorten(ids, MOST_IDS)}"
    table = Table(
        "Where the rules disagree",
        ("question", "right under", "wrong under"),
        tuple((each.question_id, ", ".join(each.right), ", ".join(each.wrong)) for each in found[:MOST_ROWS]),
        f"{rest}: `--json` lists all" if (rest := and_more(found, MOST_ROWS)) else "",
    )
    return Measurement(
        further={"questions/rules_disagree": len(found)},
        data=[
            {"question_id": each.question_id, "right": list(each.right), "wrong": list(each.wrong)}
            for each in found
        ],
        lines=(line,) if found else (),
        tables=(table,) if found else (),
    )
