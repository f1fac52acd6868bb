"""The document of `judge`."""

from collections.abc import Iterator

from flows.judging.judged import Judged, Opinions
from tasks.core.wording import and_more, counted, counts, money, number, percent, shorten
from tasks.documents.model import Block, Bullets, Document, Sentence, Span, Table
from tasks.scoring.cost import calls_in_words
from tasks.scoring.statistics.detection import accuracy_in_words

MOST_IDS = 20


def judged_document(judged: Judged, problem: str) -> Document:
    """Return the opinions beside EX, their agreement and what they cost; `problem`: why MLflow lacks them."""
    table = judged.table
    rows = tuple(
        (f"EX {name}", f"{table[ex, True]:,}", f"{table[ex, False]:,}")
        for ex, name in ((True, "right"), (False, "wrong"))
        if table[ex, True] + table[ex, False]
    )
    agreement = f"{percent(judged.agreement)} ({counts(judged.agreement)})"
    blocks: list[Block] = [
        Table("Opinions", ("", "model: right", "model: wrong"), rows),
        Sentence(f"agrees with EX (rule {judged.run.run.rule}): {agreement}"),
        Sentence(f"{accuracy_in_words(judged.accuracy)}", "" if judged.accuracy else "warning"),
    ]
    if judged.other:
        blocks.append(Sentence(f"wrong by EX, right in its opinion: {shorten(judged.other, MOST_IDS)}"))
    blocks += [cost_sentence(judged), *failure_blocks(judged)]
    if problem:
        blocks.append(Sentence(f"MLflow does not have them: {problem}", "warning"))
    opinions = f"{counted(len(judged.opinions), 'opinion')} of "
    run = f" on the run {judged.run.run.run_id}; no score depends on them"
    return Document("", tuple(blocks), (opinions, Span(judged.backbone, "strong"), run))


def cost_sentence(found: Opinions) -> Sentence:
    """Return what opinions cost."""
    cost = found.cost
    return Sentence(
        f"{calls_in_words(cost)}, {money(cost.cost_usd)}; "
        f"{number(cost.input_tokens)} tokens in, {number(cost.output_tokens)} out"
    )


def failure_blocks(found: Opinions) -> Iterator[Block]:
    """Yield the answers without an opinion, and what to do about them."""
    failed = list(found.failures.items())
    if not failed:
        return
    yield Sentence(f"no opinion on {len(failed):,} of {counted(len(found.rows), 'answer')}:", "warning")
    yield Bullets(tuple(f"{name}: {why}" for name, why in failed[:MOST_IDS]))
    if rest := and_more(failed, MOST_IDS):
        yield Sentence(f"{rest}; --json lists all", "note")
    yield Sentence(
        "Run the same command again to retry failed calls. A reply that cannot be read is kept and read again: "
        "choose another model, or another reply format (--set backbone.reply)."
    )
