"""Schema linking against the alias-resolved gold elements, and the recall that the RSL-SQL paper prints."""

from dataclasses import asdict, dataclass

from tasks.core.wording import counts, percent
from tasks.documents.model import Table
from tasks.scoring.linking import printed_recall, score_links
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import LinkingScore, Measurement, Ratio

FROM_LINK = "augmented_sql"
"""The stage that writes its SQL from the linked schema alone."""


@dataclass(frozen=True, slots=True)
class RecallOrCorrect:
    """What the RSL-SQL paper prints as SRR: every gold column linked, or the SQL made from the link right."""

    link: str  # name of the link
    stage: str  # the stage whose SQL was made from it; "" for the final answer
    ratio: Ratio  # such questions of all scored ones that have a gold SQL and a known schema


def recall_or_correct(run: ScoredRun) -> RecallOrCorrect | None:
    """Count the questions with every gold column linked or the SQL right; None without linking."""
    links = [link.name for link in run.report.links]
    if not links:
        return None
    link = "both" if "both" in links else links[-1]
    stage = next((s.name for s in run.report.stages if s.name.endswith(FROM_LINK)), "")
    ratio = printed_recall(run.scored, run.schemas, link=link, stage=stage, rule=run.rule)
    return RecallOrCorrect(link, stage, ratio)


def resolved_linking(run: ScoredRun) -> tuple[LinkingScore, ...]:
    """Score every link against the gold's columns as its aliases resolve them."""
    rows = run.scored if run.link_rows is None else run.link_rows
    return score_links(rows, run.schemas, gold_elements="resolved")


@METRICS.register("strict_recall_or_correct")
@metric("Strict recall, or right (RSL-SQL's printed SRR)", order=45)
def strict_recall_or_correct(run: ScoredRun) -> Measurement | None:
    """Report RSL-SQL's printed SRR for the link that the SQL was made from."""
    recall = recall_or_correct(run)
    if recall is None:
        return None
    return Measurement(
        further={f"linking/{recall.link}/strict_recall_or_correct": recall.ratio},
        data={"link": recall.link, "stage": recall.stage, **asdict(recall.ratio)},
        lines=(),
    )


@METRICS.register("links_resolved")
@metric(
    "Linking, gold resolved through aliases",
    order=45,
    words={"nsr": "NSR", "strict_recall": "strict recall"},
)
def links_resolved(run: ScoredRun) -> Measurement:
    """Report non-strict recall, strict recall and precision of every link."""
    links = resolved_linking(run)
    shares: dict[str, dict[str, Ratio]] = {
        link.name: {"nsr": link.nsr, "strict_recall": link.strict_recall, "precision": link.precision}
        for link in links
    }
    return Measurement(
        further={
            f"linking_resolved/{link}/{name}": share
            for link, by_name in shares.items()
            for name, share in by_name.items()
        },
        data={
            link: {name: asdict(share) for name, share in by_name.items()} for link, by_name in shares.items()
        },
        lines=(),
        tables=(_table(links, recall_or_correct(run)),) if links else (),
    )


def _table(links: tuple[LinkingScore, ...], recall: RecallOrCorrect | None) -> Table:
    by = recall and (recall.stage or "the final answer")
    return Table(
        "Linking, gold resolved through aliases",
        ("link", "NSR", "strict recall", "precision"),
        tuple(
            (link.name, _share(link.nsr), _share(link.strict_recall), _share(link.precision))
            for link in links
        ),
        f"{recall.link}: strict recall or {by} right (RSL-SQL's printed SRR) {_share(recall.ratio)}"
        if recall
        else "",
    )


def _share(ratio: Ratio) -> str:
    return f"{percent(ratio)} ({counts(ratio)})"
