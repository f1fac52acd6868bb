"""Output of `crosscheck verify-gold --overlay`."""

from typing import Any, TextIO

from flows.gold.overlay import CheckedEntry, CheckedOverlay
from tasks.core.wording import counted, shorten
from tasks.documents.terminal import literal, open_console

MOST_IDS = 20


def as_object(checked: CheckedOverlay) -> dict[str, Any]:
    """Return the check as plain JSON."""
    return {
        "benchmark": checked.benchmark.name,
        "revision": checked.benchmark.revision,
        "rule": checked.benchmark.rule,
        "file": str(checked.overlay.file),
        "sha256": checked.overlay.sha256,
        "actions": dict(checked.actions),
        "differing": list(checked.differing),
        "same_as_official": list(checked.same),
        "not_run": list(checked.not_run),
        "problems": list(checked.problems),
        "corrections": [_entry(each) for each in checked.entries],
    }


def _entry(each: CheckedEntry) -> dict[str, Any]:
    return {
        **each.entry.model_dump(mode="json", exclude={"sql"}),
        "database": each.database_id,
        "sql": [
            {
                "sql": one.sql,
                "status": one.found.status if one.found else "missing_database",
                "error": one.found.error if one.found else "",
                "row_count": one.found.row_count if one.found else None,
                "same_as_official": one.same,
            }
            for one in each.sqls
        ],
    }


def print_overlay(checked: CheckedOverlay, stream: TextIO) -> None:
    """Print the counts, the questions whose result differs or does not, and everything that is wrong."""
    console = open_console(stream)
    overlay, rule = checked.overlay, checked.benchmark.rule
    done = ", ".join(f"{count} {action}" for action, count in checked.actions.items())
    console.print(
        f"\n[bold]{literal(checked.benchmark.name)}[/] · {counted(len(checked.entries), 'correction')} of "
        f"{literal(str(overlay.file))}{f': {done}' if done else ''}\nsha256 {overlay.sha256}"
    )
    listed = (
        (f"Another result than the official gold (rule {rule})", checked.differing),
        (f"The result of the official gold (rule {rule}), so that nothing changes", checked.same),
        ("Not run, the database is missing", checked.not_run),
    )
    for title, ids in listed:
        if ids:
            console.print(f"{title}: {len(ids):,} ({literal(shorten(ids, MOST_IDS))})")
    if not checked.problems:
        console.print(
            "Every SQL runs." if any(each.sqls for each in checked.entries) else "There is no SQL to run."
        )
        return
    console.print(f"\n[bold red]{counted(len(checked.problems), 'problem')}[/]")
    for problem in checked.problems:
        console.print(f"  {literal(problem)}")
