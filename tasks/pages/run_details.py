"""The tables of a run."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from tasks.core.wording import DASH, counted, counts, money, number, percent, seconds, signed
from tasks.documents.model import Column, Table
from tasks.documents.text import folded
from tasks.pages.scores import AXIS, accuracy_table, interval_in_words, score_plot
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Cost, by_endpoint
from tasks.scoring.metrics.candidates import candidate_tables
from tasks.scoring.metrics.causes import wrong_in_words
from tasks.scoring.metrics.turns import turn_table
from tasks.scoring.scores import DIFFERENCES


def scores_table(record: RunRecord) -> Table:
    """Return the official scores under each rule, with their intervals; rules with equal counts are one row."""
    headline = record.score.correct
    official = [(name, score) for name, score in record.scores.items() if not score.variant]
    # the headline first, then the rules with its count, then the others: neighbours with equal counts become one row
    official.sort(key=lambda item: (item[0] != record.rule, item[1].correct != headline, -item[1].correct))
    named_scores = [
        ("", f"{name} (headline)" if name == record.rule else name, score) for name, score in official
    ]
    table = folded(accuracy_table("Scores", named_scores))
    alike = "Rules in one row have equal counts." if len(table.rows) < len(official) else ""
    return replace(table, caption=alike)


def variants_table(record: RunRecord) -> Table | None:
    """Return the score variants, by other golds or without some questions, and the official scores of their questions.

    Rules with equal counts are one row.
    """
    scores = [score for score in record.scores.values() if score.variant]
    equal = groupby(scores, lambda score: (score.title, score.correct, score.total, score.official))
    differing = {
        name: title
        for name, title in DIFFERENCES.items()
        if any(getattr(score.differs, name) for score in scores)
    }
    rows = tuple(
        (
            score.title,
            ", ".join(alike.rule for alike in (score, *others)),
            percent(score),
            counts(score),
            interval_in_words(score),
            score_plot(("official", score.official, "before"), (score.title, score, "b")),
            percent(score.official),
            counts(score.official),
            *(number(len(getattr(score.differs, name))) for name in differing),
        )
        for _, (score, *others) in equal
    )
    headers = (
        Column("", "text"), Column("rule", "text", under=True, help="rule"), Column("EX"), Column("right", under=True),
        Column("95 % interval", under=True), Column("official (hollow) and this one", "plot", axis=AXIS),
        Column("official, same questions"), Column("right ", under=True), *map(Column, differing.values()),
    )  # fmt: skip
    left_out = ", ".join(title for name, title in differing.items() if name not in ("now_right", "now_wrong"))
    remark = f"{left_out}: questions that are not in the denominator" if left_out else ""
    return Table("Scores by answer key and other variants", headers, rows, remark) if rows else None


def run_tables(record: RunRecord) -> Iterator[Table]:
    """Yield the tables of a run; of one that has not finished, those of its cost."""
    if record.is_finished:
        yield from _score_tables(record)
    if bill := _calls_table(record):
        yield bill
    if savings := savings_table(record):
        yield savings


def _score_tables(record: RunRecord) -> Iterator[Table]:
    if record.stages:
        rows = (
            (
                stage.name,
                percent(stage),
                counts(stage),
                number(stage.fixed, missing=""),
                number(stage.broken, missing=""),
                "" if stage.fixed is None or stage.broken is None else signed(stage.fixed - stage.broken),
            )
            for stage in record.stages
        )
        header = ("stage", "EX", Column("right", under=True), "fixed", "broken", "net")
        yield folded(Table("Execution accuracy by stage", header, tuple(rows)))
    if curve := record.metrics.get("turns"):
        yield turn_table(curve)
    yield scores_table(record)
    if variants := variants_table(record):
        yield variants
    for title, shares in (("By difficulty", record.by_difficulty), ("By database", record.by_database)):
        if len(shares) > 1:
            yield accuracy_table(title, (("", name, share) for name, share in shares.items()))
    if record.links:
        yield _linking(record)
    if candidates := record.metrics.get("candidates"):
        yield from candidate_tables(candidates)
    causes = record.metrics.get("errors") or {}
    most_first = sorted(causes.items(), key=lambda cause: -cause[1])
    if cells := tuple((name, f"{count:,}") for name, count in most_first if count):
        yield Table("Causes of wrong answers", ("cause", "questions"), cells, wrong_in_words(record.score))


def _linking(record: RunRecord) -> Table:
    rows = tuple(
        (
            link.name,
            percent(link.nsr), counts(link.nsr),
            percent(link.strict_recall), counts(link.strict_recall),
            percent(link.precision), counts(link.precision),
            f"{link.linked:,}", f"{link.avg_tables:.2f}", f"{link.avg_columns:.2f}",
            "unknown" if link.reduction is None else f"{100 * link.reduction:.1f} %",
        )
        for link in record.links
    )  # fmt: skip
    headers = (
        "link", "NSR", Column("gold columns", under=True), "strict recall", Column("questions", under=True),
        "precision", Column("linked columns", under=True), "linked", "tables", "columns", "reduction",
    )  # fmt: skip
    remark = (
        "NSR: non-strict recall, of gold columns; tables, columns, reduction: means over the questions linked"
    )
    return Table("Schema linking", headers, rows, remark)


def _calls_table(record: RunRecord) -> Table | None:
    stages = [
        (name, *_cost_cells(cost))
        for name, cost in record.stage_costs.items()
        if cost.calls or cost.cached_calls
    ]
    if not stages:
        return None
    headers = (
        "stage", "calls", "from cache", "input tokens", "output tokens", "paid", "from scratch", "p50", "p95"
    )  # fmt: skip
    rows = (*stages, None, ("all", *_cost_cells(record.cost)))
    return Table("Model calls", headers, rows, "; ".join(by_endpoint(record.cost)))


def _cost_cells(cost: Cost) -> tuple[str, ...]:
    if cost.calls == 0:
        return ("0", number(cost.cached_calls), *3 * DASH, money(cost.from_scratch_usd), *2 * DASH)
    numbers = (cost.calls, cost.cached_calls, cost.input_tokens, cost.output_tokens)
    usd = (cost.cost_usd, cost.from_scratch_usd)
    return *map(number, numbers), *map(money, usd), seconds(cost.p50_s), seconds(cost.p95_s)


def savings_table(record: RunRecord) -> Table | None:
    """Return what was saved of the list price, by stage; None if that is unknown or nothing is charged."""
    cost = record.cost
    if not cost.list_usd and not cost.reply_cache_usd:
        return None
    stages = [(name, cost) for name, cost in record.stage_costs.items() if cost.calls or cost.cached_calls]
    steps = ("list_usd", "prompt_cache_usd", "tier_usd", "cost_usd", "reply_cache_usd", "from_scratch_usd")
    rows = [
        (name, *(money(getattr(part, step)) for step in steps)) for name, part in (*stages, ("all", cost))
    ]
    headers = (
        "stage", "list price", "saved by prompt cache", "saved by tier", "paid", "saved by reply cache", "from scratch"
    )  # fmt: skip
    remarks = [
        "list price less what the provider's prompt cache and a cheaper tier saved is what was paid; the reply cache "
        "saved what its replies cost when they were paid"
    ]
    if cost.flex_calls:
        calls = counted(cost.calls or 0, "paid call")
        remarks.append(f"answered in the tier flex: {cost.flex_calls:,} of {calls}")
    if (text := forecast_in_words(record)) is not None:
        remarks.append(text)
    right = record.score.correct
    scratch = cost.from_scratch_usd
    if right and scratch is not None:
        remarks.append(
            f"per right answer: {money(scratch / right)} from scratch ({money(scratch)} / {right:,})"
        )
    return Table("Bill", headers, (*rows[:-1], None, rows[-1]), "; ".join(remarks))


def forecast_in_words(record: RunRecord) -> str | None:
    """Return the forecast of a run's cost beside the actual one; None if either is unknown."""
    forecast = record.forecast
    scratch = record.cost.from_scratch_usd
    if forecast is None or forecast.calls is None or forecast.cost_usd is None or scratch is None:
        return None
    share = f", {scratch / forecast.cost_usd:.2f} times the forecast" if forecast.cost_usd else ""
    estimated = f"forecast: {money(forecast.cost_usd)} for {counted(forecast.calls, 'call')}"
    return f"{estimated}; from scratch: {money(scratch)}{share}"
