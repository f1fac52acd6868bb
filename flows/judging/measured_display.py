"""The document of `judge --measure`."""

from flows.judging.display import cost_sentence, failure_blocks
from flows.judging.measuring import Measured
from tasks.core.wording import DASH, counted, counts, interval, percent
from tasks.documents.model import Block, Column, Document, Sentence, Span, Table
from tasks.scoring.report import Ratio
from tasks.scoring.score import Accuracy

_ROWS = {
    "positive_precision": ("positive precision", "right, of those called right"),
    "positive_recall": ("positive recall", "called right, of the right answers"),
    "negative_precision": ("negative precision", "wrong, of those called wrong"),
    "negative_recall": ("negative recall", "called wrong, of the wrong answers"),
}


def measured_document(found: Measured) -> Document:
    """Return the measures of the judge beside those of execution accuracy, and its recall by kind of error."""
    judge, execution, rows = found.judge, found.execution, found.of.rows
    right = sum(found.of.labels[row.question.id].label for row in rows)
    headers = ("", found.opinions.backbone, "execution accuracy", Column("definition", "text"))
    measures: list[tuple[str, ...]] = [
        (
            "accuracy",
            _accuracy(judge.accuracy),
            _accuracy(execution.accuracy),
            "opinions that are the label, of all",
        )
    ]
    measures += [
        (title, _share(getattr(judge, name)), _share(getattr(execution, name)), meaning)
        for name, (title, meaning) in _ROWS.items()
    ]
    kinds = tuple((name, _share(each), _share(execution.kinds[name])) for name, each in judge.kinds.items())
    blocks: list[Block] = [
        Table("Measures", headers, tuple(measures)),
        Sentence(
            f"{right:,} of the {counted(len(rows), 'answer')} are right: calling every answer right has an accuracy of "
            f"{percent(Ratio(right, len(rows)))}. An answer without an opinion counts as not found."
        ),
    ]
    if kinds:
        columns = ("kind of error", found.opinions.backbone, "execution accuracy")
        blocks.append(Table("Called wrong, of the wrong answers with a kind of error", columns, kinds))
    blocks += [cost_sentence(found.opinions), *failure_blocks(found.opinions)]
    if absent := found.of.without_database:
        blocks.append(
            Sentence(
                f"not judged, because their database is missing: {counted(len(absent), 'answer')}", "warning"
            )
        )
    if found.kept:
        blocks.append(
            Sentence("Opinions of this judge name its accuracy from now on; repeat `judge` for older ones.")
        )
    else:
        blocks.append(
            Sentence("Not kept: only a measurement on all answers that can be judged is.", "warning")
        )
    lead = (
        Span(found.opinions.backbone, "strong"),
        f" on {counted(len(rows), 'labelled answer')} of NL2SQL-BUGs",
    )
    return Document("", tuple(blocks), lead)


def _accuracy(share: Accuracy) -> str:
    range_ = f", {interval(*share.interval)}" if share.interval else ""
    return f"{percent(share)} ({counts(share)}{range_})"


def _share(share: Ratio) -> str:
    return f"{percent(share)} ({counts(share)})" if share.total else f"{DASH} ({counts(share)})"
