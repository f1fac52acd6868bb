"""`crosscheck cache`."""

import datetime
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.cli import options
from tasks.errors import ConfigurationError

if TYPE_CHECKING:
    from tasks.backbone.cache.store import ReplyCache


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
@click.option("--model", metavar="NAME", help="Replies of this model only.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="The latest N."
)
@options.home
@options.as_json
def list_replies(model: str | None, limit: int, home: str | None, as_json: bool) -> None:
    """Show how many replies there are, of which models, and the latest."""
    from pydantic_core import to_jsonable_python

    with _open(home) as cache:
        stats = cache.stats()
        entries = list(cache.entries(model=model, limit=limit))
    if as_json:
        click.echo(json.dumps(to_jsonable_python({"cache": stats, "latest": entries}), ensure_ascii=False))
        return
    click.echo(f"{stats.place}: {stats.entries:,} replies, {stats.bytes / 1e6:.1f} MB")
    for each in stats.models:
        cost = "cost unknown" if each.cost_usd is None else f"${each.cost_usd:,.4f}"
        partly = (
            f" ({each.unpriced:,} without a price)" if each.unpriced and each.cost_usd is not None else ""
        )
        click.echo(f"  {each.model}: {each.entries:,} replies, {cost}{partly}")
    for entry in entries:
        text = " ".join(entry.text.split())
        click.echo(f"{entry.created_at}  {entry.model}  {entry.key[:12]}  {text[:60]}")


@command.command("prune")
@click.option("--older-than", metavar="AGE", help="Replies older than this, e.g. 90d or 12h.")
@click.option("--model", metavar="NAME", help="Replies of this model only.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.home
def prune(older_than: str | None, model: str | None, everything: bool, yes: bool, home: str | None) -> None:
    """Remove replies. They were paid for: this asks first."""
    if not (older_than or model or everything):
        raise click.UsageError("Say what to remove: --older-than, --model or --all.")
    age = _age(older_than) if older_than else None
    with _open(home) as cache:
        count = sum(1 for _ in cache.entries(model=model, older_than=age))
        question = f"Remove {count:,} replies? They have to be paid for again when they are needed."
        if count and not yes and not click.confirm(question):
            click.echo("Nothing was removed.")
            return
        click.echo(f"{cache.prune(older_than=age, model=model, all=everything):,} replies removed.")


@command.command("export")
@click.argument("file", type=click.Path(dir_okay=False, writable=True))
@options.home
def export(file: str, home: str | None) -> None:
    """Write all replies with their requests to FILE, a JSON object per line."""
    with _open(home) as cache:
        click.echo(f"{cache.export(Path(file)):,} replies written to {file}.")


@contextmanager
def _open(home: str | None) -> "Iterator[ReplyCache]":
    from tasks.backbone.cache.store import open_reply_cache
    from tasks.settings.home import find_home
    from tasks.settings.stores import find_replies

    with open_reply_cache(find_replies(find_home(home))) as cache:
        yield cache


def _age(text: str) -> datetime.timedelta:
    match = re.fullmatch(r"(\d+)([dhm])", text.strip())
    if not match:
        raise ConfigurationError(f"--older-than {text}: write a number and d, h or m, for example 90d.")
    unit = {"d": "days", "h": "hours", "m": "minutes"}[match[2]]
    return datetime.timedelta(**{unit: int(match[1])})
