"""Suggestions as JSON, as a document and as a draft of corrections in which nothing is decided."""

import json
from pathlib import Path
from typing import Any

from flows.cli.output import result_as_object
from flows.gold.review import result_tables, review_item, rows_in_words
from flows.gold.suggestions import Suggestion, Suggestions
from tasks.benchmarks.keys.key import UNDECIDED
from tasks.core.errors import ConfigurationError
from tasks.core.wording import counted, storable
from tasks.documents.model import (
    Answer,
    Bullets,
    Code,
    Document,
    QuestionItem,
    Questions,
    Section,
    Sentence,
    Span,
)
from tasks.tracking.review.queue import ReviewItem


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


def suggestions_document(found: Suggestions, limit: int) -> Document:
    """Return the questions, each with both SQLs and, on a page, with both results; a terminal shows the first ones."""
    first, count = found.runs[0].run, counted(len(found.suggestions), "gold")
    questions = Questions(
        tuple(map(_item, found.suggestions)),
        {"database": "Database", "difficulty": "Difficulty"},
        first=limit,
        rest="; --limit shows more, --html writes a page with both results",
    )
    runs = tuple(
        (Span(each.run.backbone, "strong"), f" {each.run.pipeline}, run ", Span(each.run.run_id, "code"))
        for each in found.runs
    )
    return Document(
        f"{count} to look at",
        (
            Bullets(runs),
            *(Sentence(f"A database cannot be read: {name}", "warning") for name in found.not_read),
            questions if questions.items else Sentence("There is none."),
        ),
        (
            Span("Crosscheck · golds of ", "quiet"),
            Span(first.benchmark, "strong"),
            f", revision {first.revision} · rule {found.rule}",
        ),
        f"On {len(found.suggestions):,} of {counted(found.compared, 'question')}, at least {found.least} backbones "
        "agree with each other and not with the gold. Models can be wrong together: nothing changes a score until a "
        "person decides.",
        footer=(
            Section(
                "How to decide",
                (
                    Sentence(
                        "In a file of corrections, an entry replaces the gold by other SQL, adds SQL whose result is "
                        "as right, or withdraws a question that has no single right answer, each with a reason and a "
                        "source."
                    ),
                    Sentence("This writes the questions as undecided entries, and checks the file:"),
                    Code("crosscheck golds suggest RUN RUN --draft corrections.json"),
                    Code("crosscheck verify-gold --key corrections.json"),
                ),
            ),
        ),
        name=f"{count} to look at: {first.benchmark}",
    )


def _item(each: Suggestion) -> QuestionItem:
    question = each.question
    (_, agreed), *more = each.sqls.items()
    others = tuple(
        block for name, sql in more for block in (Sentence(name, "note"), Code(sql, "sql", each.gold_sql))
    )
    about = (question.database_id, question.difficulty, who(each))
    return QuestionItem(
        question.id,
        None,
        " · ".join(part for part in about if part),
        question.text,
        question.evidence,
        (
            Answer(
                f"what they agree on ({rows_in_words(each.agreed)})",
                agreed,
                each.gold_sql,
                blocks=(*others, *result_tables(each.agreed)),
            ),
            Answer(
                f"gold ({rows_in_words(each.gold)})", each.gold_sql, blocks=tuple(result_tables(each.gold))
            ),
        ),
        {"database": question.database_id, "difficulty": question.difficulty or ""},
    )


def review_items(found: Suggestions) -> list[ReviewItem]:
    """Return the questions for a review queue, of several groups of a question the first."""
    items: dict[str, ReviewItem] = {}
    for each in found.suggestions:
        proposed = (next(iter(each.sqls.values())), each.agreed)
        item = review_item(each.question, (each.gold_sql, each.gold), proposed, who(each))
        items.setdefault(each.question.id, item)
    return list(items.values())


def who(each: Suggestion) -> str:
    """Say who agrees with whom."""
    parts = [f"{', '.join(each.sqls)} agree"]
    if each.agreeing_with_gold:
        parts.append(f"{', '.join(each.agreeing_with_gold)} with the gold")
    if each.others:
        parts.append(f"{', '.join(each.others)} with neither")
    return "; ".join(parts)


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
