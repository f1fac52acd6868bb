"""Terminal output and JSON of `status` and `clean`."""

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from flows.storage.folder import Cleaned, Folder, not_ours
from tasks.core.wording import counted, money, shorten, size
from tasks.documents.terminal import literal, make_grid, open_console, show
from tasks.tracking.retention.store import Holding

_ONE = {"replies": "reply"}
NOT_SHRUNK = "Files shrink only while no other process, such as `crosscheck up`, uses the working folder."


def print_holdings(folder: Folder, holdings: Sequence[Holding], stream: TextIO) -> None:
    """Print a table of the stores, and what is kept."""
    console = open_console(stream)
    texts = ("holds", "`clean` removes", "and frees", "in")
    made = make_grid("", "store", "size", *texts, texts=texts)
    for each in holdings:
        made.add_row(
            each.name,
            size(each.size),
            literal(_counts(each.counts) + _cost(each)),
            _counts({name: count for name, count in each.removable.items() if count}),
            f"about {size(each.frees)}" if each.frees else "",
            literal(_place(each, folder)),
        )
    total, frees = sum(each.size for each in holdings), sum(each.frees for each in holdings)
    made.add_section()
    made.add_row("all", size(total), "", "", f"about {size(frees)}" if frees else "nothing", "")
    show(console, made, keep=3)
    kept = folder.retention
    console.print(
        f"{literal(str(folder.home.path))} · kept: everything used since {kept.cutoff:%Y-%m-%d %H:%M} UTC, and by "
        f"{counted(len(kept.kept), 'run')}. Of {counted(len(kept.removable), 'older run')}, `clean` keeps the scores"
        f"{' and questions' if kept.rows else ''} only"
    )
    for each in holdings:
        if each.note:
            console.print(f"[dim]·[/] {each.name}: {literal(each.note)}")
    if elsewhere := not_ours(folder.home):
        console.print(
            f"[dim]·[/] What is kept where {shorten(elsewhere, 3)} names is not counted here, and not cleaned."
        )


def in_words(cleaned: Cleaned) -> str:
    """Say what was freed, and what could not be done."""
    bytes_freed = cleaned.before - cleaned.after
    freed = (
        f"Freed {size(bytes_freed)}: {size(cleaned.after)} are left of {size(cleaned.before)}."
        if bytes_freed > 0
        else f"Nothing freed ({size(cleaned.after)})."
    )
    return " ".join((freed, *cleaned.problems, *([] if cleaned.shrunk else [NOT_SHRUNK])))


def as_object(folder: Folder, holdings: Sequence[Holding]) -> dict[str, Any]:
    """Return the stores as plain JSON."""
    return {
        "home": str(folder.home.path),
        "bytes": sum(each.size for each in holdings),
        "frees_bytes": sum(each.frees for each in holdings),
        "cutoff": folder.retention.cutoff.isoformat(timespec="seconds"),
        "kept_runs": sorted(folder.retention.kept),
        "stores": [
            {
                "name": each.name,
                "path": str(each.path),
                "bytes": each.size,
                "counts": dict(each.counts),
                "removable": dict(each.removable),
                "frees_bytes": each.frees,
                "cost_usd": each.cost_usd,
                "note": each.note or None,
            }
            for each in holdings
        ],
    }


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{count:,} {_ONE.get(name, name[:-1]) if count == 1 else name}" for name, count in counts.items()
    )


def _cost(holding: Holding) -> str:
    if holding.name != "replies" or not sum(holding.counts.values()):
        return ""
    return f", paid {money(holding.cost_usd)}"


def _place(holding: Holding, folder: Folder) -> str:
    inside = holding.path.is_relative_to(folder.home.path)
    return str(holding.path.relative_to(folder.home.path) if inside else holding.path)
