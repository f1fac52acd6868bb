"""Tables and texts that the summaries share."""

from collections.abc import Iterable, Iterator, Mapping

from tasks.core.wording import Share, counts, money, number, percent, seconds, signed
from tasks.documents.model import Table
from tasks.documents.terminal import literal
from tasks.scoring.cost import Cost
from tasks.scoring.degradation import Degradation
from tasks.scoring.report import StageScore


def degradation_lines(found: Degradation) -> Iterator[str]:
    """Yield the sentences on degraded stages, in red if a stage had no effect."""
    colour = "red" if any(each.without_effect for each in found.stages) else "yellow"
    yield from (f"[{colour}]![/] {literal(sentence)}" for sentence in found.sentences)


def stage_table(title: str, stages: Iterable[StageScore]) -> Table:
    """Describe the accuracy after each stage, and what the stage fixed and broke."""
    rows = (
        (
            stage.name,
            percent(stage),
            counts(stage),
            number(stage.fixed, missing=""),
            number(stage.broken, missing=""),
            "" if stage.fixed is None or stage.broken is None else signed(stage.fixed - stage.broken),
        )
        for stage in stages
    )
    return Table(title, ("stage", "EX", "right", "fixed", "broken", "net"), tuple(rows))


def share_table(title: str, shares: Mapping[str, Share]) -> Table:
    """Describe accuracies by their names."""
    rows = ((name, percent(ratio), counts(ratio)) for name, ratio in shares.items())
    return Table(title, ("", "EX", "right"), tuple(rows))


def cost_cells(cost: Cost, input_tokens: int | None, output_tokens: int | None) -> tuple[str, ...]:
    """Return the cells of a bill: calls, calls from a cache, tokens, money paid and from scratch, seconds of a call."""
    numbers = (cost.calls, cost.cached_calls, input_tokens, output_tokens)
    usd = (cost.cost_usd, cost.from_scratch_usd)
    return *map(number, numbers), *map(money, usd), seconds(cost.p50_s), seconds(cost.p95_s)
