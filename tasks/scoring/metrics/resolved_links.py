"""Schema linking against the alias-resolved gold elements, and the recall that the RSL-SQL paper prints."""

from dataclasses import asdict

from tasks.documents.model import Table
from tasks.scoring.linking import printed_recall, score_links
from tasks.scoring.metric import SHARE, ScoredRun, in_words, metric
from tasks.scoring.report import Measurement, Ratio

FROM_LINK = "augmented_sql"
"""The stage that writes its SQL from the linked schema alone."""


@metric("Strict recall, or right (RSL-SQL's printed SRR)", order=45)
def strict_recall_or_correct(run: ScoredRun) -> Measurement | None:
    """Count the questions with every gold column linked, or the SQL made from the link right; None without linking."""
    links = [link.name for link in run.report.links]
    if not links:
        return None
    link = "both" if "both" in links else links[-1]
    stage = next((s.name for s in run.report.stages if s.name.endswith(FROM_LINK)), "")
    ratio = printed_recall(run.scored, run.schemas, link=link, stage=stage, rule=run.rule)
    return Measurement(
        further={f"linking/{link}/strict_recall_or_correct": ratio},
        data={"link": link, "stage": stage, **asdict(ratio)},
        lines=(),
    )


@metric(
    "Linking, gold resolved through aliases",
    order=45,
    words={"nsr": "NSR", "strict_recall": "strict recall"},
)
def links_resolved(run: ScoredRun) -> Measurement:
    """Report non-strict recall, strict recall and precision of every link."""
    rows = run.scored if run.link_rows is None else run.link_rows
    shares: dict[str, dict[str, Ratio]] = {
        link.name: {"nsr": link.nsr, "strict_recall": link.strict_recall, "precision": link.precision}
        for link in score_links(rows, run.schemas, gold_elements="resolved")
    }
    return Measurement(
        data={
            link: {name: asdict(share) for name, share in by_name.items()} for link, by_name in shares.items()
        },
        lines=(),
        tables=(_table(shares, strict_recall_or_correct.of(run)),) if shares else (),
    )


def _table(shares: dict[str, dict[str, Ratio]], recall: Measurement | None) -> Table:
    caption = ""
    if recall:
        stage = recall.data["stage"] or "the final answer"
        caption = (
            f"{recall.data['link']}: strict recall or {stage} right (RSL-SQL's printed SRR) "
            f"{in_words(Ratio.of(recall.data), SHARE)}"
        )
    return Table(
        "Linking, gold resolved through aliases",
        ("link", "NSR", "strict recall", "precision"),
        tuple(
            (link, *(in_words(share, SHARE) for share in by_name.values()))
            for link, by_name in shares.items()
        ),
        caption,
    )
