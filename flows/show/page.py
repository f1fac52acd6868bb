"""A run as one self-contained HTML page, with every question's stages, prompts, replies and results."""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.show.question_view import QuestionView, question_as_object
from flows.show.run_view import RunView, causes_of
from tasks.documents.text import visible
from tasks.scoring.metrics.causes import is_unanswered, wrong_in_words
from tasks.scoring.report import QuestionScore, is_right
from tasks.scoring.significance import PairedTest
from tasks.scoring.variants import VARIANTS, Judge, judges
from tasks.tracking.pages.template import fill

KINDS = ("wrong", "unanswered", "right", "not scored")
_SECTION = re.compile(r"^(?=### )", re.MULTILINE)


@dataclass(frozen=True)
class Line:
    """A question on the page.

    Attributes:
        score: the question with its answer.
        kind: one of KINDS.
        causes: why it is wrong.
        changes: "fixed by STAGE" and "broken by STAGE".
        variants: verdict of each score variant, in words.
        packed: everything else of it, compressed JSON in base64; "" where it is not on the page.
    """

    score: QuestionScore
    kind: str
    causes: tuple[str, ...]
    changes: tuple[str, ...]
    variants: tuple[str, ...] = ()
    packed: str = ""


@dataclass(frozen=True)
class Before:
    """The run before of the same benchmark, backbone and pipeline, and the test of the difference."""

    run_id: str
    result: PairedTest


@dataclass(frozen=True)
class Links:
    """Other runs on the page.

    Attributes:
        board: address of the leaderboard, relative to the page; "": there is none.
        before: the run before; None: there is none that asked the same questions.
    """

    board: str = ""
    before: Before | None = None


def render_run(view: RunView, questions: Sequence[QuestionView], links: Links | None = None) -> str:
    """Return the page.

    Prompts share long sections, which are on the page once; what a question has for itself is compressed and is
    unpacked by the browser where a reader opens it. The stages, prompts, replies and results of `questions` are on it.
    """
    report = view.record
    objects = {each.score.question.id: question_as_object(each) for each in questions}
    shared = _shared_sections(objects.values())
    packed = {id_: _pack(_with_sections(found, shared)) for id_, found in objects.items()}
    variants = judges(view.stored.run.settings.get("benchmark") or {}, view.stored.rows)
    lines = [_line(view, row, variants, packed.get(row.question.id, "")) for row in view.stored.rows]
    tables = [
        ("Scores", report.scores),
        ("By difficulty", report.by_difficulty),
        ("By database", report.by_database),
    ]
    return fill(
        "run.html.jinja",
        ["page.css"],
        ["page.js", "details.js"],
        view=view,
        links=links or Links(),
        run=view.stored.run,
        report=report,
        linking=report.links,
        wrong=wrong_in_words(report.score),
        tables=[(title, shares) for title, shares in tables if shares],
        lines=lines,
        kinds=[kind for kind in KINDS if any(line.kind == kind for line in lines)],
        databases=sorted({row.question.database_id for row in view.stored.rows}),
        grades=sorted({row.question.difficulty for row in view.stored.rows if row.question.difficulty}),
        not_stored=next((each.exchanges.problem for each in questions if each.exchanges.problem), ""),
        sections=_pack(list(shared)),
    )


def _line(view: RunView, row: QuestionScore, variants: Mapping[str, Judge], packed: str) -> Line:
    rule = view.record.rule
    right = is_right(row.final, rule)
    kind = (
        "not scored"
        if not row.executable
        else "right"
        if right
        else "unanswered"
        if is_unanswered(row)
        else "wrong"
    )
    changes, before = [], None
    for stage, verdict in row.stages.items():
        now = is_right(verdict, rule)
        if before is not None and now != before:
            changes.append(f"{'fixed' if now else 'broken'} by {stage}")
        before = now
    words = {True: "right", False: "wrong", None: "not counted"}
    judged = tuple(f"{VARIANTS[name].title}: {words[judge(row, rule)]}" for name, judge in variants.items())
    causes = causes_of(view, row) if kind == "wrong" else ()
    return Line(row, kind, causes, tuple(changes), judged if row.executable else (), packed)


def _messages(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for stage in question["stages"]:
        for call in stage["calls"]:
            yield from call["messages"] or ()


def _shared_sections(questions: Any) -> dict[str, int]:
    """Return the sections that several messages have, each with its place on the page."""
    count = Counter(
        part
        for question in questions
        for each in _messages(question)
        for part in _SECTION.split(each["content"])
    )
    shared = (part for part, times in count.items() if times > 1 and len(part) > 40)
    return {part: place for place, part in enumerate(shared)}


def _with_sections(question: dict[str, Any], shared: dict[str, int]) -> dict[str, Any]:
    """Replace the text of a question's messages by lists of sections: places of shared ones, text of others."""
    for message in _messages(question):
        message["content"] = [shared.get(part, part) for part in _SECTION.split(message["content"])]
    return question


def _pack(value: Any) -> str:
    """Return a value as JSON, compressed, in base64; what could act in its texts is spelled out."""
    text = json.dumps(_visible(value), ensure_ascii=False, separators=(",", ":"), default=str)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list | tuple) else value
