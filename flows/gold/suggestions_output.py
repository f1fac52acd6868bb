"""Suggestions as JSON, as text, as a page and as a draft of corrections in which nothing is decided."""

import json
from pathlib import Path
from typing import Any, TextIO

from flows.cli.output import result_as_object
from flows.gold.suggestions import Suggestion, Suggestions
from tasks.benchmarks.overlay import UNDECIDED
from tasks.core.errors import ConfigurationError
from tasks.core.records import Execution
from tasks.core.wording import counted, storable
from tasks.documents.terminal import literal, open_console
from tasks.documents.text import visible
from tasks.tracking.pages.template import fill


def as_object(found: Suggestions) -> dict[str, Any]:
    """Return the suggestions as plain JSON."""
    first = found.runs[0].run
    return {
        "benchmark": first.benchmark,
        "revision": first.revision,
        "rule": found.rule,
        "runs": [each.run.run_id for each in found.runs],
        "backbones": list(found.backbones),
        "agree": found.least,
        "compared": found.compared,
        "not_read": list(found.not_read),
        "suggestions": [
            {
                "question_id": each.question.id,
                "database": each.question.database_id,
                "question": each.question.text,
                "evidence": each.question.evidence,
                "sql": dict(each.sqls),
                "gold_sql": each.gold_sql,
                "agreeing_with_gold": list(each.agreeing_with_gold),
                "others": list(each.others),
                "result": result_as_object(each.agreed),
                "gold_result": result_as_object(each.gold),
            }
            for each in found.suggestions
        ],
    }


def print_suggestions(found: Suggestions, limit: int, stream: TextIO) -> None:
    """Print the first questions, each with its two SQLs."""
    console = open_console(stream)
    first = found.runs[0].run
    console.print(
        f"\n[bold]{literal(first.benchmark)}[/] · {counted(len(found.runs), 'run')} of "
        f"{literal(', '.join(found.backbones))}"
    )
    console.print(
        f"On {len(found.suggestions):,} of {counted(found.compared, 'question')}, at least {found.least} backbones "
        f"agree with each other and not with the gold (rule {found.rule}). Nothing changes a score until a person "
        "decides."
    )
    if found.not_read:
        console.print(f"[yellow]![/] Databases that cannot be read: {literal(', '.join(found.not_read))}")
    for each in found.suggestions[:limit]:
        console.print(
            f"\n[bold]{literal(each.question.id)}[/]  {literal(each.question.database_id)}  {literal(who(each))}"
        )
        console.print(f"  {literal(each.question.text)}")
        if each.question.evidence:
            console.print(f"  [dim]evidence: {literal(each.question.evidence)}[/]")
        sides = (("they", next(iter(each.sqls.values())), each.agreed), ("gold", each.gold_sql, each.gold))
        for name, sql, result in sides:
            console.print(f"  {name} [dim]({rows_in_words(result)})[/]")
            console.print(f"    {visible(' '.join(sql.split()))}", markup=False)
    if len(found.suggestions) > limit:
        console.print(
            f"\n[dim]the first {limit:,}; --limit shows more, --html writes a page with both results[/]"
        )


def who(each: Suggestion) -> str:
    """Say who agrees with whom."""
    parts = [f"{', '.join(each.sqls)} agree"]
    if each.agreeing_with_gold:
        parts.append(f"{', '.join(each.agreeing_with_gold)} with the gold")
    if each.others:
        parts.append(f"{', '.join(each.others)} with neither")
    return "; ".join(parts)


def rows_in_words(found: Execution) -> str:
    """Say how many rows a result has, or why there is none."""
    return counted(found.row_count or 0, "row") if found.ok else f"{found.status}: {found.error}"


def render(found: Suggestions) -> str:
    """Return the page: both SQLs and both results of each question side by side."""
    return fill(
        "suggestions.html.jinja",
        ["page.css"],
        found=found,
        run=found.runs[0].run,
        who=who,
        rows_in_words=rows_in_words,
    )


def write_draft(found: Suggestions, file: Path) -> None:
    """Write a file of corrections in which every entry is undecided, so that it changes no score.

    Raises:
        ConfigurationError: the file is there already, or cannot be written.
    """
    runs = ", ".join(each.run.run_id for each in found.runs)
    seen: set[str] = set()
    entries = []
    for each in found.suggestions:
        if each.question.id not in seen:  # of several groups the first
            seen.add(each.question.id)
            entries.append(
                {
                    "question_id": each.question.id,
                    "action": UNDECIDED,
                    "sql": next(iter(each.sqls.values())),
                    "reason": f"{who(each)} (rule {found.rule})",
                    "source": f"crosscheck golds suggest, runs {runs}; not reviewed yet",
                }
            )
    draft = {
        "description": "A draft. Look at each entry, then write replace, add or withdraw in the place of undecided, "
        "with your reason and source, or take the entry out.",
        "corrections": entries,
    }
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(storable(json.dumps(draft, ensure_ascii=False, indent=1)) + "\n")
    except FileExistsError:
        raise ConfigurationError(f"--draft {file}: the file is there already; name another one.") from None
    except OSError as error:
        raise ConfigurationError(f"--draft {file}: it cannot be written: {error.strerror}.") from None
