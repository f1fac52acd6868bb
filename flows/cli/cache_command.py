"""`crosscheck cache`."""

import datetime
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from flows.cli.output import emit
from tasks.errors import ConfigurationError

if TYPE_CHECKING:
    from tasks.backbone.cache.store import ReplyCache


@dataclass(frozen=True, kw_only=True)
class ListOptions(options.Output):
    """Options of `crosscheck cache list`."""

    model: str | None = options.option("--model", metavar="NAME", help="Replies of this model only.")
    limit: int = options.option(
        "--limit",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        metavar="N",
        help="The latest N.",
    )


@dataclass(frozen=True, kw_only=True)
class PruneOptions(options.Folder):
    """Options of `crosscheck cache prune`."""

    older_than: str | None = options.option(
        "--older-than", metavar="AGE", help="Replies older than this, e.g. 90d or 12h."
    )
    model: str | None = options.option("--model", metavar="NAME", help="Replies of this model only.")
    everything: bool = options.option("--all", is_flag=True, help="All of them.")
    yes: bool = options.option("--yes", is_flag=True, help="Do not ask.")


@dataclass(frozen=True, kw_only=True)
class ExportOptions(options.Folder):
    """Options of `crosscheck cache export`."""

    file: str = options.argument(type=click.Path(dir_okay=False, writable=True))


@click.group(
    "cache",
    epilog="\b\nExamples:\n  crosscheck cache list\n  crosscheck cache export replies.jsonl\n"
    "  crosscheck cache prune --older-than 90d --model gpt-4o",
)
def command() -> None:
    """Show, prune or export the model replies that were paid for.

    They are kept in one SQLite file in the working folder, or where CROSSCHECK_REPLIES says; a request that is there is
    never paid for again.
    """


@command.command("list")
@options.record(ListOptions)
def list_replies(given: ListOptions) -> None:
    """Show how many replies there are, of which models, and the latest."""
    from pydantic_core import to_jsonable_python

    with _open(given) as cache:
        stats = cache.stats()
        entries = list(cache.entries(model=given.model, limit=given.limit))

    def show(stream: TextIO) -> None:
        click.echo(f"{stats.place}: {stats.entries:,} replies, {stats.bytes / 1e6:.1f} MB", stream)
        for each in stats.models:
            cost = "cost unknown" if each.cost_usd is None else f"${each.cost_usd:,.4f}"
            partly = (
                f" ({each.unpriced:,} without a price)" if each.unpriced and each.cost_usd is not None else ""
            )
            click.echo(f"  {each.model}: {each.entries:,} replies, {cost}{partly}", stream)
        for entry in entries:
            text = " ".join(entry.text.split())
            click.echo(f"{entry.created_at}  {entry.model}  {entry.key[:12]}  {text[:60]}", stream)

    emit(to_jsonable_python({"cache": stats, "latest": entries}), show, as_json=given.as_json, text_too=False)


@command.command("prune")
@options.record(PruneOptions)
def prune(given: PruneOptions) -> None:
    """Remove replies. They were paid for: this asks first."""
    if not (given.older_than or given.model or given.everything):
        raise click.UsageError("Say what to remove: --older-than, --model or --all.")
    age = _age(given.older_than) if given.older_than else None
    with _open(given) as cache:
        count = sum(1 for _ in cache.entries(model=given.model, older_than=age))
        question = f"Remove {count:,} replies? They have to be paid for again when they are needed."
        if count and not given.yes and not click.confirm(question):
            click.echo("Nothing was removed.")
            return
        removed = cache.prune(older_than=age, model=given.model, all=given.everything)
        click.echo(f"{removed:,} replies removed.")


@command.command("export")
@options.record(ExportOptions)
def export(given: ExportOptions) -> None:
    """Write all replies with their requests to FILE, a JSON object per line."""
    with _open(given) as cache:
        click.echo(f"{cache.export(Path(given.file)):,} replies written to {given.file}.")


@contextmanager
def _open(given: options.Folder) -> "Iterator[ReplyCache]":
    from tasks.backbone.cache.store import open_reply_cache
    from tasks.settings.stores import find_replies

    with open_reply_cache(find_replies(given.folder)) as cache:
        yield cache


def _age(text: str) -> datetime.timedelta:
    match = re.fullmatch(r"(\d+)([dhm])", text.strip())
    if not match:
        raise ConfigurationError(f"--older-than {text}: write a number and d, h or m, for example 90d.")
    unit = {"d": "days", "h": "hours", "m": "minutes"}[match[2]]
    return datetime.timedelta(**{unit: int(match[1])})
