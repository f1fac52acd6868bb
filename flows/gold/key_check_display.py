"""Output of `crosscheck verify-gold --key`."""

from typing import Any

from flows.gold.key_check import CheckedEntry, CheckedKey
from tasks.core.wording import counted, shorten
from tasks.documents.model import Block, Bullets, Document, Section, Sentence, Span

MOST_IDS = 20


def as_object(checked: CheckedKey) -> dict[str, Any]:
    """Return the check as plain JSON."""
    return {
        "benchmark": checked.benchmark.name,
        "revision": checked.benchmark.revision,
        "rule": checked.benchmark.rule,
        "key": checked.key.name,
        "file": str(checked.key.file),
        "sha256": checked.key.sha256,
        "actions": dict(checked.actions),
        "differing": list(checked.differing),
        "same_as_official": list(checked.same),
        "other_text": list(checked.other_text),
        "absent": sorted(checked.key.absent),
        "not_run": list(checked.not_run),
        "problems": list(checked.problems),
        "entries": [_entry(each) for each in checked.entries],
    }


def _entry(each: CheckedEntry) -> dict[str, Any]:
    return {
        **each.entry.model_dump(mode="json", exclude={"sql"}),
        "database": each.database_id,
        "other_text": each.other_text,
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


def key_document(checked: CheckedKey) -> Document:
    """Return the counts, the questions whose result differs or does not, and everything that is wrong."""
    key, rule = checked.key, checked.benchmark.rule
    done = ", ".join(f"{count} {action}" for action, count in checked.actions.items())
    about = f" · the key {key.name} changes {counted(len(checked.entries), 'question')}{f': {done}' if done else ''}"
    listed = (
        (f"Another result than the official gold (rule {rule})", checked.differing),
        (f"The result of the official gold (rule {rule}), so that nothing changes", checked.same),
        (
            "Another text, so that answers to the benchmark's own text are not scored by this key",
            checked.other_text,
        ),
        ("Not in the key, so that they are not scored by it", sorted(key.absent)),
        ("Not run, the database is missing", checked.not_run),
    )
    blocks: list[Block] = [Sentence(f"{key.file}, sha256 {key.sha256}")]
    blocks += [Sentence(note, "warning") for note in key.notes]
    blocks += [Sentence(f"{title}: {len(ids):,} ({shorten(ids, MOST_IDS)})") for title, ids in listed if ids]
    if checked.problems:
        title = Span(counted(len(checked.problems), "problem"), "bad")
        blocks.append(Section(title, (Bullets(tuple(checked.problems)),)))
    else:
        some = any(each.sqls for each in checked.entries)
        blocks.append(Sentence("Every SQL runs." if some else "There is no SQL to run."))
    return Document("", tuple(blocks), (Span(checked.benchmark.name, "strong"), about))
