"""Output of `crosscheck verify-gold`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from rich.console import Console

from flows.gold.verification import Verified
from tasks.core.wording import and_more, number, seconds, shorten
from tasks.documents.model import Table
from tasks.documents.terminal import literal, open_console, show_all
from tasks.scoring.execution.gold_check import GoldCheck, GoldReport
from tasks.settings.home import find_conf
from tasks.settings.load import available

MOST_LISTED = 20
MOST_IDS = 8
CLASSES = {
    "rows": "with rows",
    "empty": "empty",
    "error": "failing",
    "timeout": "stopped by the time limit",
    "too_large": "too large",
    "missing_database": "without a database",
    "unreadable_database": "whose database cannot be read",
}


def as_object(verified: Verified) -> dict[str, Any]:
    """Return the result as plain JSON; queries that return rows in time are only counted."""
    report, benchmark = verified.report, verified.benchmark
    listed: dict[str, list[dict[str, Any]]] = {
        name: [_object(check) for check in report.checks if check.found == name]
        for name in ("empty", "error", "timeout", "too_large", "missing_database", "unreadable_database")
    }
    return {
        "benchmark": benchmark.name,
        "revision": benchmark.revision,
        "source": verified.golds.source,
        "question_sha256": verified.digest,
        "engine": verified.engine,
        "translated": verified.translated,
        "golds": len(report.checks),
        "counts": dict(report.counts) | {"slow": len(report.slow)},
        "slow_over_s": report.slow_s,
        "p95_s": report.p95_s,
        **listed,
        "slow": [_object(check) for check in report.slow],
        "suggested_quarantine": list(verified.suggested),
    }


def print_gold(verified: Verified, stream: TextIO) -> None:
    """Print the counts, a limited list of queries of each kind, and the suggested quarantine."""
    console = open_console(stream)
    report, benchmark = verified.report, verified.benchmark
    console.print(
        f"\n[bold]{literal(benchmark.name)}[/] · revision {literal(benchmark.revision)} · "
        f"{len(report.checks):,} gold queries of {literal(verified.golds.source)}"
    )
    console.print(literal(verified.engine))
    if verified.translated:
        console.print(f"[bold]{literal(verified.translated)}[/]")
    show_all(console, [_counts(report)])
    _list(console, "Failing, stopped or too large", report.faults)
    _list(console, "Database cannot be read: run the command again", report.unreadable)
    _list(console, "Slow", report.slow)
    _per_database(console, "Empty", [check for check in report.checks if check.found == "empty"])
    _per_database(
        console, "Without a database", [check for check in report.checks if check.found == "missing_database"]
    )
    if verified.suggested:
        ours = benchmark.name in available(find_conf(), "benchmark")
        settings_file = f"{'conf/benchmarks/' if ours else ''}{benchmark.name}.yaml"
        whose = settings_file if verified.golds.by_question else "this file (positions)"
        console.print(f"\nNo prediction can be right under these. Suggested quarantine for {literal(whose)}:")
        console.print(literal(f"quarantine: {json.dumps(list(verified.suggested))}"))
    elif not report.unreadable:
        console.print("\nNothing to quarantine.")


def _counts(report: GoldReport) -> Table:
    return Table(
        "Gold",
        ("", "queries"),
        (
            *(
                (CLASSES[name], number(count))
                for name, count in report.counts.items()
                if count or name in ("rows", "empty", "error")
            ),
            None,
            ("in all", number(len(report.checks))),
            (f"slow (over {report.slow_s:g} s)", number(len(report.slow))),
        ),
        "" if report.p95_s is None else f"95 % within {1000 * report.p95_s:.2g} ms",
    )


def _list(console: Console, title: str, checks: Sequence[GoldCheck]) -> None:
    if not checks:
        return
    console.print(f"\n[bold]{title}[/] ({len(checks):,})")
    for check in checks[:MOST_LISTED]:
        took = "" if check.seconds is None else f", {seconds(check.seconds)}"
        why = f": {check.error}" if check.error else ""
        console.print(
            f"  {literal(check.id)} [dim]({literal(check.database_id)}{took})[/]{literal(why)}\n"
            f"    [dim]{literal(' '.join(check.sql.split())[:200])}[/]"
        )
    if rest := and_more(checks, MOST_LISTED):
        console.print(f"  [dim]{rest}: --json lists all[/]")


def _per_database(console: Console, title: str, checks: Sequence[GoldCheck]) -> None:
    """List ids by database, the database with most of them first."""
    if not checks:
        return
    console.print(f"\n[bold]{title}[/] ({len(checks):,})")
    ids: dict[str, list[str]] = {}
    for check in checks:
        ids.setdefault(check.database_id, []).append(check.id)
    databases = sorted(ids, key=lambda name: -len(ids[name]))
    for name in databases[:MOST_LISTED]:
        console.print(literal(f"  {name} ({len(ids[name]):,}): {shorten(ids[name], MOST_IDS)}"))
    if rest := and_more(databases, MOST_LISTED, noun="databases"):
        console.print(f"  [dim]{rest}: --json lists all[/]")


def _object(check: GoldCheck) -> dict[str, Any]:
    fields = asdict(check)
    del fields["found"]
    return fields
