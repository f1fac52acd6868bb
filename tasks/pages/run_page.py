"""A run as one self-contained HTML page, with every question's stages, prompts, replies and results."""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tasks.core.outcome import TURN, is_turn, split_label
from tasks.core.wording import counted, counts, interval, number, percent
from tasks.database.schema import Schema
from tasks.documents.html import html
from tasks.documents.model import (
    AnswerBlock,
    Block,
    Bullets,
    Card,
    Cards,
    Code,
    Columns,
    Document,
    Facts,
    Figure,
    QuestionItem,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
    Tone,
    reading,
)
from tasks.documents.text import visible
from tasks.pages.comparison import comparison_document
from tasks.pages.first_screen import compared_sentences, cost_sentence, variant_sentences
from tasks.pages.run_details import run_tables
from tasks.results.comparison import Comparison
from tasks.results.curves import CAPTION as TURN_CAPTION
from tasks.results.curves import turn_chart
from tasks.results.mlflow.package import COMPARISON, PAGE
from tasks.results.predictions_table import answer_in_words
from tasks.results.run_record import RunRecord
from tasks.scoring.candidates import bill_line
from tasks.scoring.execution.rules import RULES
from tasks.scoring.metrics.causes import classify, is_unanswered
from tasks.scoring.scores import CHANGES_IN_WORDS, QuestionScore, is_right
from tasks.scoring.variants import Variant, find_variants


@dataclass(frozen=True)
class RunView:
    """A run with its questions."""

    # with its questions; of a run that is not finished, made from the questions that it has so far
    record: RunRecord
    # schemas of its databases; {} if the benchmark's files cannot be read
    schemas: Mapping[str, Schema] = field(default_factory=dict, repr=False)
    problem: str = ""  # why there are no schemas, and so no causes; "" if there are

    @property
    def wrong(self) -> tuple[QuestionScore, ...]:
        """Scored questions whose answer is wrong."""
        rule = self.record.rule
        return tuple(
            row
            for row in self.record.rows
            if row.executable and row.outcome.sql and not is_right(row.final, rule)
        )

    @property
    def unanswered(self) -> tuple[QuestionScore, ...]:
        """Questions without a SQL; they count as wrong."""
        return tuple(row for row in self.record.rows if is_unanswered(row))


def causes_of(view: RunView, row: QuestionScore) -> tuple[str, ...]:
    """Return why a question is wrong; () if it is right or the schema of its database is unknown."""
    schema = view.schemas.get(row.question.database_id)
    return classify(row, view.record.rule, schema) if schema else ()


_SECTION = re.compile(r"^(?=### )", re.MULTILINE)


def with_one_prompt(question: dict[str, Any]) -> dict[str, Any]:
    """Leave out the calls of later turns, whose prompts are the conversation so far; the turns themselves are there."""
    for stage in question["stages"]:
        if stage["value"] and bill_line(stage["stage"]) == TURN:
            first = split_label(stage["stage"])[0] == TURN  # the labels of later turns have a number
            stage["calls"] = [call for call in stage["calls"] if first and call["messages"]]
    return question


def _messages(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for stage in question["stages"]:
        for call in stage["calls"]:
            yield from call["messages"] or ()


def shared_sections(questions: Any) -> dict[str, int]:
    """Return the longer sections that several messages of prompts have, each with its place on the page."""
    count = Counter(
        part
        for question in questions
        for message in _messages(question)
        for part in _SECTION.split(message["content"])
    )
    shared = (part for part, times in count.items() if times > 1 and len(part) > 40)
    return {part: position for position, part in enumerate(shared)}


def with_sections(question: dict[str, Any], shared: dict[str, int]) -> dict[str, Any]:
    """Replace the text of a question's messages by lists of sections: places of shared ones, text of others."""
    for message in _messages(question):
        message["content"] = [shared.get(part, part) for part in _SECTION.split(message["content"])]
    return question


def pack(value: Any) -> str:
    """Return a value as JSON, compressed, in base64; what could act in its texts is spelled out."""
    text = json.dumps(_visible(value), ensure_ascii=False, separators=(",", ":"), default=str)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list | tuple) else value


MAX_QUESTIONS = 2_000
"""Most questions on a page: Chromium opens 1,500 in 1.4 s, and 12,000 in 21 s."""
MAX_COLUMNS = 6
"""Columns of a table that has half of the page's width."""
TONES: dict[str, Tone] = {"wrong": "bad", "unanswered": "doubt", "right": "better", "not scored": "quiet"}
FILTERS = {
    "status": "Answer", "database": "Database", "difficulty": "Difficulty", "cause": "Cause", "stage": "Stage"
}  # fmt: skip
WITH_PROMPTS = "Results, prompts and replies: crosscheck show {} --open, or crosscheck view."
_READING = (
    "A question without an answer counts as wrong. A stage has fixed a question that was wrong before it and right "
    "after it, and broken it the other way round. Causes compare the structure of the SQL with the gold's; the gold is "
    "on this page for its reader and was shown to no stage. Money is what this run paid; what the cache answered was "
    "paid before."
)


@dataclass(frozen=True)
class Links:
    """Other pages and runs that the page names."""

    board: str = ""  # address of the leaderboard, relative to the page; "": there is none
    # address of the page of a question by its id; "": there is none
    question: Callable[[str], str] = lambda _: ""
    # the comparison of the previous run (A) with this one (B); None: there is none with the same questions
    before: Comparison | None = None


def run_page(view: RunView, questions: Sequence[dict[str, Any]] = (), links: Links | None = None) -> Document:
    """Return the page of a run.

    `questions` are objects as `crosscheck show RUN QUESTION --json` prints them, with stages, prompts, replies and
    results. They are on the page in compressed form, and the browser unpacks a question that a reader opens. Sections
    that several prompts have are on the page once.
    """
    record = view.record
    links = links or Links()
    tables = tuple(run_tables(record))
    wide = tuple(table for table in tables if isinstance(table, Table) and len(table.columns) > MAX_COLUMNS)
    rows = listed_rows(view)
    turns = turn_chart(record.metrics.get("turns"))
    items, shared = question_items(view, rows, questions, links.question)
    note = "" if questions or links.board else WITH_PROMPTS.format(record.run_id)
    listed = Questions(items, FILTERS, note=note)
    tags = Facts(tuple(record.tags.items())) if record.tags else Sentence("Nothing.", "note")
    labels = Section("Tags, and what differs from the defaults", (tags,))
    causes = f"Causes: {view.problem}" if view.problem else ""
    not_stored = next((question["not_stored"] for question in questions if question["not_stored"]), "")
    title = f"{record.pipeline} with {record.backbone} on {record.benchmark}"
    score = record.score
    bounds = f", 95 % interval {interval(*score.interval)} (Wilson)" if score.interval else ""
    accuracy = f"Execution accuracy of the final answers: {counts(score)} right under the rule {record.rule}{bounds}."
    blocks: list[Block] = [
        *variant_sentences(record),
        _summary_cards(view, links),
        *_notes("Stages that fell back", record.degradation.sentences),
        *_notes("What is missing on this page", tuple(filter(None, (causes, not_stored)))),
        Section("Questions", (*_left_out(record, len(rows)), listed), "questions"),
        *([Figure(TURN_CAPTION, turns)] if turns else ()),
        Columns((*(table for table in tables if table not in wide), labels)),
        *wide,
    ]
    state = () if record.status == "complete" else (" · ", Span(record.status, "strong"))
    strips_distinct = f" The rule {record.rule} compares both queries without DISTINCT."
    footer = (
        Sentence(_READING + (strips_distinct if RULES[record.rule].strips_distinct else "")),
        Sentence(("Question file sha256 ", Span(record.question_sha256, "code"), ".")),
    )
    return Document(
        f"{title}: {percent(score)}",
        tuple(blocks),
        ("Crosscheck · run ", Span(record.run_id, "code"), f" · {record.started:%Y-%m-%d %H:%M} UTC", *state),
        accuracy if record.is_finished else "There is no execution accuracy: the run has not finished.",
        footer=reading(*footer),
        name=f"{percent(score)}: {title}",
        packed=shared,
    )


def question_items(
    view: RunView,
    rows: Sequence[QuestionScore],
    questions: Sequence[dict[str, Any]],
    link: Callable[[str], str] = lambda _: "",
) -> tuple[tuple[QuestionItem, ...], str]:
    """Return questions of a run as they stand on a page, and the sections that their prompts share, compressed.

    `rows` are the questions of the page. Those in `questions` also have results, stages, prompts and replies, as in
    `run_page`. `link` is as in `Links`.
    """
    objects = {question["question_id"]: with_one_prompt(question) for question in questions}
    shared = shared_sections(objects.values())
    packed = {id_: pack(with_sections(content, shared)) for id_, content in objects.items()}
    variants = find_variants(view.record.settings_of("benchmark"), view.record.rows)
    items = {row.question.id: _item(view, row, variants) for row in rows}
    linked = (replace(item, packed=packed.get(id_, ""), link=link(id_)) for id_, item in items.items())
    return tuple(linked), pack(list(shared))


def pages_with(schemas: Mapping[str, Schema]) -> Callable[[RunRecord], dict[str, str]]:
    """Return a function that makes the pages of a run that has ended, by the name of MLflow's artifact.

    They are the run's, without results, prompts and replies, and its comparison with the previous run, if there is one.
    """

    def pages(record: RunRecord) -> dict[str, str]:
        page = run_page(RunView(record, schemas), (), Links(before=record.before))
        compared = {COMPARISON: html(comparison_document(record.before))} if record.before else {}
        return {PAGE: html(page), **compared}

    return pages


def listed_rows(view: RunView) -> tuple[QuestionScore, ...]:
    """Return the questions on the page: all, or the first `MAX_QUESTIONS`, of which the wrong ones come first."""
    rows = view.record.rows
    if len(rows) <= MAX_QUESTIONS:
        return rows
    first = {row.question.id: row for row in (*view.wrong, *view.unanswered, *rows)}
    return tuple(first.values())[:MAX_QUESTIONS]


def _left_out(record: RunRecord, listed: int) -> Iterator[Sentence]:
    if listed < len(record.rows):
        yield Sentence(
            f"This page has {listed:,} of {len(record.rows):,} questions, the wrong ones first. "
            f"`crosscheck show {record.run_id} QUESTION` shows any other.",
            "note",
        )


def _notes(title: str, sentences: Sequence[str]) -> tuple[Section, ...]:
    return (Section(title, (Bullets(tuple(sentences)),), notes=True),) if sentences else ()


def _summary_cards(view: RunView, links: Links) -> Cards:
    record, comparison = view.record, links.before
    better = list(compared_sentences(comparison)) or [
        Sentence("There is no comparison with an earlier run of the same questions.")
    ]
    broke: list[Sentence] = []
    to_do: list[Code] = []
    if comparison:
        result = comparison.paired
        flips = f"{counted(len(result.broken), 'question')} broken, {number(len(result.fixed))} fixed"
        broke.append(Sentence(f"Against the previous run: {flips}"))
        if comparison.same_system:
            to_do.append(Code(f"crosscheck compare {comparison.a.run_id} {record.run_id}  # what changed"))
    if links.board:
        better.append(Sentence(Span("Leaderboard", link=links.board)))
    retry = f", {number(record.to_retry)} of them can be retried" if record.to_retry else ""
    unscored = (record.questions or 0) - (record.scored or 0)
    not_scored = f", {number(unscored)} not scored (no database or no gold)" if unscored else ""
    wrong = Span(f"{len(view.wrong):,} wrong", "strong", link="#questions-wrong" if view.wrong else "")
    link = "#questions-unanswered" if view.unanswered else ""
    unanswered = Span(f"{len(view.unanswered):,} without an answer", link=link)
    broke.append(Sentence((wrong, ", ", unanswered, f"{retry}{not_scored}")))
    if record.to_retry:
        to_do.insert(0, Code(f"crosscheck rerun {record.run_id}  # retries {number(record.to_retry)}"))
    kind = "unanswered" if view.unanswered and not view.wrong else "wrong"
    to_do.append(Code(f"crosscheck show {record.run_id} --{kind}"))
    return Cards((
        Card("Is it better?", tuple(better)),
        Card("What broke?", tuple(broke)),
        Card("What did it cost?", (Sentence(cost_sentence(record)),)),
        Card("Next", tuple(to_do), wide=True),
    ))  # fmt: skip


def _status(row: QuestionScore, rule: str) -> str:
    if not row.executable:
        return "not scored"
    if is_right(row.final, rule):
        return "right"
    return "unanswered" if is_unanswered(row) else "wrong"


def _changes(record: RunRecord, row: QuestionScore) -> list[str]:
    """Return which stages fixed or broke a question, and whether an agent had it right after a turn and lost it."""
    changes = []
    was_right = None
    for stage, verdict in row.stages.items():
        right_now = is_right(verdict, record.rule)
        if was_right is not None and right_now != was_right and not is_turn(stage):
            changes.append(f"{'fixed' if right_now else 'broken'} by {stage}")
        was_right = right_now
    lost = (record.metrics.get("turns") or {}).get("lost") or {}
    if row.question.id in lost.get("questions", ()):
        changes.append("right after a turn, and lost")
    return changes


def _item(view: RunView, row: QuestionScore, variants: Mapping[str, Variant]) -> QuestionItem:
    """Return a question of the page's list; `variants` judge it by other golds, or leave it out."""
    rule = view.record.rule
    question = row.question
    kind = _status(row, rule)
    words = {True: "right", False: "wrong", None: "not counted"}
    judged = (f"{variant.title}: {words[variant.judge(row, rule)]}" for variant in variants.values())
    causes = causes_of(view, row) if kind == "wrong" else ()
    about = (question.database_id, question.difficulty, ", ".join(causes).replace("_", " "))
    gold = row.gold_sql or None
    compared = gold if kind == "wrong" else None  # the page marks the differences of a wrong answer
    return QuestionItem(
        id=question.id,
        badge=Span(kind, TONES[kind], "badge"),
        about=" · ".join((*filter(None, about), *(judged if row.executable else ()))),
        text=question.text,
        evidence=question.evidence,
        answers=(
            AnswerBlock(answer_in_words(row, rule), row.outcome.sql, compared, blocks=_opinion(row)),
            *([AnswerBlock("gold", gold)] if gold else ()),
            *_keys(row),
        ),
        keys={
            "status": kind,
            "database": question.database_id,
            "difficulty": question.difficulty or "",
            "cause": "\n".join(causes),
            "stage": "\n".join(_changes(view.record, row)),
        },
    )


def _opinion(row: QuestionScore) -> tuple[Block, ...]:
    if (opinion := row.opinion) is None:
        return ()
    text = f"opinion of {opinion.model}: {'right' if opinion.right else 'wrong'}, {opinion.reason}"
    return (Sentence(text, "note"),)


def _keys(row: QuestionScore) -> Iterator[AnswerBlock]:
    """Yield the golds and the reason of each answer key (other golds for the benchmark) that has the question."""
    for name, verdict in row.keys.items():
        if verdict.change == "absent":
            continue
        first, *others = verdict.golds or (None,)
        more: list[Block] = [Sentence(f"{verdict.reason} ({verdict.source})", "note")]
        if verdict.change == "other_text":
            more.append(Sentence(f"its text: {verdict.question} {verdict.evidence}".rstrip(), "note"))
        more += [Code(sql, "sql") for sql in others if sql]
        yield AnswerBlock(
            f"gold by the key {name}: {CHANGES_IN_WORDS[verdict.change]}", first, blocks=tuple(more)
        )
