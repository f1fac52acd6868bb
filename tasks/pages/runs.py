"""The list of runs, which `crosscheck runs` prints and `crosscheck view` shows with links."""

from collections.abc import Callable, Sequence

from tasks.core.wording import counts, percent
from tasks.documents.model import Column, Inline, Span, Table
from tasks.pages.scores import AXIS, score_plot
from tasks.results.run_record import DATABASES_CHANGED, ORACLE, REROLLED, TRANSLATED, RunHeader
from tasks.settings.evaluation import labels_in_words

Address = Callable[[RunHeader], str]


def no_address(_run: RunHeader) -> str:
    """Return "": there is no page."""
    return ""


def runs_table(
    runs: Sequence[RunHeader],
    limit: int,
    *,
    page_of: Address = no_address,
    comparison_of: Address = no_address,
    more: str = "",
) -> Table:
    """Return the table of runs.

    Args:
        runs: the runs, newest first.
        limit: how many are listed.
        page_of: returns the address of a run's page, "" for none.
        comparison_of: returns the address at which a run is compared with others, "" for none.
        more: how to see those that are not listed, for the caption.
    """
    listed = runs[:limit]
    linked = any(map(comparison_of, listed))
    rows = tuple(
        (
            Span(run.run_id, link=page_of(run)),
            percent(run.accuracy),
            counts(run.accuracy),
            score_plot(("", run.accuracy, "b")),
            run.benchmark,
            run.backbone,
            _evaluated(run),
            run.rule,
            f"{run.started:%Y-%m-%d %H:%M}",
            *((Span("compare", link=comparison_of(run)) if comparison_of(run) else "",) if linked else ()),
        )
        for run in listed
    )
    headers = (
        Column("run", "text", whole=True), Column("EX", brief=True), Column("right", under=True, brief=True),
        Column("with its 95 % interval", "plot", axis=AXIS), Column("benchmark", "text"), Column("backbone", "text"),
        Column("pipeline", "text", brief=True), Column("rule"), Column("started (UTC)"),
        *((Column("compare", "text"),) if linked else ()),
    )  # fmt: skip
    rest = f"the latest {limit:,} of {len(runs):,}{more}" if len(runs) > limit else ""
    return Table("", headers, rows, rest, keep=6, wide=True, search=True)


def _evaluated(run: RunHeader) -> Inline:
    """Return the pipeline, its end where it is not complete, settings that differ, and what the user wrote on it."""
    more = (run.tags.get("changed", ""), labels_in_words(run.tags))
    status = [Span(f"\n{status}", "doubt")] if (status := _status(run)) else []
    return (run.pipeline, *status, *(Span(f"\n{text}", "quiet") for text in more if text))


def _status(run: RunHeader) -> str:
    """Return a run's status, with the tags that exclude it from ranking; "" of a complete run without any."""
    tags = [tag for tag in (ORACLE, REROLLED, TRANSLATED, DATABASES_CHANGED) if tag in run.tags]
    unanswered = [f"{run.unanswered:,} unanswered"] if run.unanswered else []
    status = ", ".join([run.status, *unanswered, *tags])
    return "" if status == "complete" else status
