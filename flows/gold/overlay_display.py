"""Output of `crosscheck verify-gold --overlay`."""

from typing import Any

from flows.gold.overlay import CheckedEntry, CheckedOverlay
from tasks.core.wording import counted, shorten
from tasks.documents.model import Block, Bullets, Document, Section, Sentence, Span

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


def overlay_document(checked: CheckedOverlay) -> Document:
    """Return the counts, the questions whose result differs or does not, and everything that is wrong."""
    overlay, rule = checked.overlay, checked.benchmark.rule
    done = ", ".join(f"{count} {action}" for action, count in checked.actions.items())
    about = f" · {counted(len(checked.entries), 'correction')} of {overlay.file}{f': {done}' if done else ''}"
    listed = (
        (f"Another result than the official gold (rule {rule})", checked.differing),
        (f"The result of the official gold (rule {rule}), so that nothing changes", checked.same),
        ("Not run, the database is missing", checked.not_run),
    )
    blocks: list[Block] = [Sentence(f"sha256 {overlay.sha256}")]
    blocks += [Sentence(f"{title}: {len(ids):,} ({shorten(ids, MOST_IDS)})") for title, ids in listed if ids]
    if checked.problems:
        title = Span(counted(len(checked.problems), "problem"), "bad")
        blocks.append(Section(title, (Bullets(tuple(checked.problems)),)))
    else:
        some = any(each.sqls for each in checked.entries)
        blocks.append(Sentence("Every SQL runs." if some else "There is no SQL to run."))
    return Document("", tuple(blocks), (Span(checked.benchmark.name, "strong"), about))
