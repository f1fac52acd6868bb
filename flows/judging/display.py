"""The document of `judge`."""

from flows.judging.judged import Judged
from tasks.core.wording import and_more, counted, counts, money, number, percent, shorten
from tasks.documents.model import Block, Bullets, Document, Sentence, Span, Table

MOST_IDS = 20


def judged_document(judged: Judged, problem: str) -> Document:
    """Return the opinions beside EX, their agreement and what they cost; `problem`: why MLflow lacks them."""
    cost, table = judged.cost, judged.table
    rows = tuple(
        (f"EX {name}", f"{table[ex, True]:,}", f"{table[ex, False]:,}")
        for ex, name in ((True, "right"), (False, "wrong"))
        if table[ex, True] + table[ex, False]
    )
    agreement = f"{percent(judged.agreement)} ({counts(judged.agreement)})"
    blocks: list[Block] = [
        Table("Opinions", ("", "model: right", "model: wrong"), rows),
        Sentence(f"agrees with EX (rule {judged.run.run.rule}): {agreement}"),
    ]
    if judged.other:
        blocks.append(Sentence(f"wrong by EX, right in its opinion: {shorten(judged.other, MOST_IDS)}"))
    blocks.append(
        Sentence(
            f"{number(cost.calls)} calls paid, {number(cost.cached_calls)} from the cache, {money(cost.cost_usd)}; "
            f"{number(cost.input_tokens)} tokens in, {number(cost.output_tokens)} out"
        )
    )
    if failed := list(judged.failures.items()):
        rest = and_more(failed, MOST_IDS)
        blocks += [
            Sentence(f"no opinion on {len(failed):,} of {counted(len(judged.rows), 'answer')}:", "warning"),
            Bullets(tuple(f"{name}: {why}" for name, why in failed[:MOST_IDS])),
            *([Sentence(f"{rest}; --json lists all", "note")] if rest else ()),
            Sentence(
                "Run the same command again to retry failed calls. A reply that cannot be read is kept and read again: "
                "choose another model, or another reply format (--set backbone.reply)."
            ),
        ]
    if problem:
        blocks.append(Sentence(f"MLflow does not have them: {problem}", "warning"))
    opinions = f"{counted(len(judged.opinions), 'opinion')} of "
    run = f" on the run {judged.run.run.run_id}; no score depends on them"
    return Document("", tuple(blocks), (opinions, Span(judged.backbone, "strong"), run))
