"""`crosscheck cache`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options

if TYPE_CHECKING:
    from tasks.backbone.cache.store import ReplyCache


@dataclass(frozen=True, kw_only=True)
class ListOptions(options.Output):
    """Options of `crosscheck cache list`."""

    model: str | None = options.option("--model", metavar="NAME", help="Only replies of this model.")
    limit: int = options.number(
        "--limit",
        default=10,
        help="Number of the latest replies to show.",
    )


@dataclass(frozen=True, kw_only=True)
class PruneOptions(options.Output):
    """Options of `crosscheck cache prune`."""

    older_than: str | None = options.option(
        "--older-than", metavar="AGE", help="Only replies older than this, for example 90d or 12h."
    )
    model: str | None = options.option("--model", metavar="NAME", help="Only replies of this model.")
    damaged: bool = options.flag("--damaged", "Only replies that cannot be read.")
    everything: bool = options.flag("--all", "All replies.")
    yes: bool = options.flag("--yes", "Do not ask for confirmation.")


@dataclass(frozen=True, kw_only=True)
class ExportOptions(options.Output):
    """Options of `crosscheck cache export`."""

    file: str = options.argument(type=click.Path(dir_okay=False, writable=True))


@click.group(
    "cache",
    epilog="\b\nExamples:\n  crosscheck cache list\n  crosscheck cache export replies.jsonl\n"
    "  crosscheck cache prune --older-than 90d --model gpt-4o",
)
def command() -> None:
    """Show, remove or export cached model replies.

    The cache is one SQLite file in the working folder, or the file or URL in CROSSCHECK_REPLIES. A cached request is
    not paid for again.
    """


@command.command(
    "list",
    epilog="\b\nExample:\n  crosscheck cache list --model gpt-4o\n"
    "\nExit codes: 0 listed; 2 bad input, or one of the latest replies is "
    "damaged.",
)
@options.record(ListOptions)
def list_replies(given: ListOptions) -> None:
    """Show replies and their cost by model.

    Below them are the latest replies.
    """
    from pydantic_core import to_jsonable_python

    from tasks.backbone.cache.entry import DamagedEntriesError, DamagedEntry
    from tasks.documents.text import visible

    with _open(given) as cache:
        stats = cache.stats()
        latest = list(cache.entries(model=given.model, limit=given.limit))
    damaged = [entry for entry in latest if isinstance(entry, DamagedEntry)]
    entries = [entry for entry in latest if not isinstance(entry, DamagedEntry)]

    def show(stream: TextIO) -> None:
        click.echo(f"{stats.place}: {stats.entries:,} replies, {stats.bytes / 1e6:.1f} MB", stream)
        for each in stats.models:
            cost = "cost unknown" if each.cost_usd is None else f"${each.cost_usd:,.4f}"
            partly = (
                f" ({each.unpriced:,} without a price)" if each.unpriced and each.cost_usd is not None else ""
            )
            click.echo(f"  {visible(each.model)}: {each.entries:,} replies, {cost}{partly}", stream)
        for entry in entries:
            text = " ".join(entry.text.split())[:60]
            click.echo(visible(f"{entry.created_at}  {entry.model}  {entry.key[:12]}  {text}"), stream)

    given.emit(to_jsonable_python({"cache": stats, "latest": entries, "damaged": damaged}), show)
    if damaged:
        raise DamagedEntriesError(stats.place, damaged)


@command.command(
    "prune",
    epilog="\b\nExamples:\n  crosscheck cache prune --older-than 90d --model gpt-4o\n"
    "  crosscheck cache prune --damaged --yes\n"
    "\nExit codes: 0 removed, or nothing to remove; 2 bad input.",
)
@options.record(PruneOptions)
def prune(given: PruneOptions) -> None:
    """Remove replies, after asking for confirmation.

    Name which: --older-than and --model, which can be combined, --damaged or --all. A removed reply is paid for again
    when it is needed.
    """
    if not (given.older_than or given.model or given.damaged or given.everything):
        raise click.UsageError("Select the replies to remove: --older-than, --model, --damaged or --all.")
    from tasks.settings.evaluation import age as age_of

    age = age_of(given.older_than, "--older-than") if given.older_than else None
    with _open(given) as cache:
        damaged = cache.damaged(given.model, age) if given.damaged else None
        count = cache.count(given.model, age) if damaged is None else len(damaged)
        question = f"Remove {count:,} replies? A removed reply is paid for again when it is needed."
        if count and not given.yes and not click.confirm(question, err=given.as_json):
            given.emit({"removed": 0}, lambda stream: click.echo("Nothing was removed.", stream))
            return
        if damaged is None:
            removed = cache.prune(older_than=age, model=given.model, all=given.everything)
        else:
            removed = cache.remove(damaged)
    given.emit({"removed": removed}, lambda stream: click.echo(f"{removed:,} replies removed.", stream))


@command.command(
    "export",
    epilog="\b\nExample:\n  crosscheck cache export replies.jsonl\n\nExit codes: 0 written; 2 bad input.",
)
@options.record(ExportOptions)
def export(given: ExportOptions) -> None:
    """Write all replies with their requests to FILE as JSON lines."""
    with _open(given) as cache:
        written = cache.export(Path(given.file))
    given.emit(
        {"file": given.file, "replies": written},
        lambda stream: click.echo(f"{written:,} replies written to {given.file}.", stream),
    )


@contextmanager
def _open(given: options.Folder) -> "Iterator[ReplyCache]":
    from tasks.backbone.cache.store import open_reply_cache
    from tasks.settings.home import find_replies

    with open_reply_cache(find_replies(given.folder)) as cache:
        yield cache
