"""Output of `crosscheck benchmarks verify`, of golds and of an answer key."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from flows.evaluate.gold_check import CheckedKey, Verified
from tasks.core.wording import agreeing, and_more, counted, number, rounded, seconds, shorten
from tasks.documents.model import Block, Bullets, Document, Section, Sentence, Span, Table, reading
from tasks.results.run_record import Count, JsonDocument, at
from tasks.results.warehouse.views import Rows
from tasks.scoring.execution.gold_check import KINDS_IN_WORDS, Decision, Finding, GoldCheck, GoldReport
from tasks.settings.home import find_conf
from tasks.settings.load import available
from tasks.sql.alternatives import KINDS

MAX_LISTED = 20
MAX_IDS = 8
CLASSES = {
    "rows": "with rows",
    "empty": "empty",
    "error": "failing",
    "timeout": "stopped by the time limit",
    "too_large": "too large",
    "missing_database": "without a database",
    "unreadable_database": "whose database cannot be read",
}


class FindingDocument(JsonDocument):
    """An alternative of a gold that has another result."""

    kind: str = at("pair", "kind")
    one: str = at("pair", "one")
    other: str = at("pair", "other")
    columns: tuple[str, ...]
    only_one: Rows
    only_other: Rows


def _findings(decisions: Mapping[str, Decision] | None) -> dict[str, tuple[Finding, ...]] | None:
    if decisions is None:
        return None
    return {name: decision.findings for name, decision in decisions.items() if decision.findings}


Checks = tuple[GoldCheck, ...]


class VerifiedDocument(JsonDocument):
    """What `benchmarks verify --json` prints; queries that return rows in time are only counted."""

    benchmark: str = at("benchmark", "name")
    revision: str = at("benchmark", "revision")
    source: str = at("golds", "source")
    question_sha256: str = at("digest")
    engine: str
    translated: str
    differing_from_sqlite: tuple[str, ...] = at("differing")
    golds: Count = at("report", "checks")
    counts: dict[str, int]
    slow_over_s: float = at("report", "slow_s")
    p95_s: float | None = at("report", "p95_s")
    empty: Checks = at("report", "by_class", "empty")
    error: Checks = at("report", "by_class", "error")
    timeout: Checks = at("report", "by_class", "timeout")
    too_large: Checks = at("report", "by_class", "too_large")
    missing_database: Checks = at("report", "by_class", "missing_database")
    unreadable_database: Checks = at("report", "by_class", "unreadable_database")
    slow: Checks = at("report", "slow")
    suggested_quarantine: tuple[str, ...] = at("suggested")
    undecided: Annotated[dict[str, tuple[FindingDocument, ...]] | None, BeforeValidator(_findings)] = at(
        "decisions"
    )
    not_checked: dict[str, str] = at("unchecked")


def gold_document(verified: Verified) -> Document:
    """Return the counts, a limited list of queries of each kind, and the questions that scores should leave out."""
    report, benchmark = verified.report, verified.benchmark
    revision = f", revision {benchmark.revision}"
    translated = [Sentence(Span(verified.translated, "strong"))] if verified.translated else []
    if differing := verified.differing:
        golds = counted(len(differing), "translated gold")
        ids = shorten(differing, MAX_IDS)
        translated.append(Sentence(f"{golds} with another result than on SQLite: {ids}", "warning"))
    faults, not_run = len(report.faults), len(report.by_class["unreadable_database"])
    blocks = (
        *([Sentence(verified.engine)] if verified.engine else []),
        *translated,
        _counts(report),
        *_list("Failing, stopped or too large", report.faults),
        *_list("Not run: the database cannot be read", report.by_class["unreadable_database"]),
        *_list("Slow", report.slow),
        *_per_database("Empty", report.by_class["empty"]),
        *_per_database("Without a database", report.by_class["missing_database"]),
        *_quarantine(verified),
        *_undecided(verified),
    )
    return Document(
        f"{faults:,} of {counted(len(report.checks), 'gold query')} {agreeing('fails', faults)} or "
        f"{agreeing('exceeds', faults)} a limit{f', {not_run:,} could not be run' if not_run else ''}",
        blocks,
        (Span("Crosscheck · golds of ", "quiet"), Span(benchmark.name, "strong"), revision),
        verified.golds.source,
        "bad" if report.faults else "",
        reading(
            Sentence(
                "If every gold query of a question fails, is stopped by the time limit or returns too large a result, "
                "each prediction counts as wrong. An empty result may be right."
            )
        ),
        name=f"Golds of {benchmark.name}",
    )


def _quarantine(verified: Verified) -> Iterator[Section]:
    """Yield the line of a benchmark's settings that leaves out the questions of which no gold query runs."""
    if verified.suggested:
        is_in_conf = verified.benchmark.name in available(find_conf(), "benchmark")
        settings_file = f"{'conf/benchmarks/' if is_in_conf else ''}{verified.benchmark.name}.yaml"
        # Only ids of the evaluated questions belong in the benchmark's settings.
        target = settings_file if verified.golds.by_question else "this file (positions)"
        title = f"No prediction can be right under these. Suggested quarantine for {target}:"
        yield Section(title, (Sentence(f"quarantine: {json.dumps(list(verified.suggested))}"),))
    elif not verified.report.by_class["unreadable_database"]:
        which = "One gold query of every question" if verified.report.faults else "Every gold query"
        yield Section(f"{which} runs: no question has to be left out.", ())


def _undecided(verified: Verified) -> Iterator[Block]:
    """Yield the golds whose result the data do not decide (as at a LIMIT within equal rows), and rows that differ."""
    if verified.decisions is None:
        return
    undecided = verified.undecided
    sqls = {check.id: check.sql for check in verified.report.first_finished}
    unchecked = list(verified.unchecked)
    rows = tuple(
        (KINDS_IN_WORDS[kind], number(len(ids)), shorten(ids, MAX_IDS))
        for kind in KINDS
        if (ids := [name for name, decision in undecided.items() if kind in decision.kinds])
    )
    total = f"of {counted(len(verified.decisions), 'gold')} that {agreeing('runs', len(verified.decisions))}"
    caption = "a gold can have several causes"
    if unchecked:
        caption += f"; not checked in full: {len(unchecked):,} ({shorten(unchecked, MAX_IDS)})"
    blocks: list[Block] = [Table("", ("cause", "golds", "ids"), rows, caption)] if rows else []
    for name, decision in list(undecided.items())[:MAX_LISTED]:
        blocks.append(Sentence((f"  {name} ", Span(f"({', '.join(decision.kinds)})", "quiet"))))
        blocks.append(Sentence(f"    {' '.join(sqls[name].split())[:200]}", "note"))
        first = decision.findings[0]
        for sql, own_rows in ((first.pair.one, first.only_one), (first.pair.other, first.only_other)):
            rows_of_sql = "; ".join(str(row)[:120] for row in own_rows) or "no row of its own"
            blocks.append(Sentence(f"    {rows_of_sql}  <- {' '.join(sql.split())[-90:]}"))
    if rest := and_more(list(undecided), MAX_LISTED):
        blocks.append(Sentence(f"  {rest}: --json lists all", "note"))
    title = f"Result that the data do not decide: {len(undecided):,} {total}"
    if undecided:
        remark = "A score without them stands beside the headline with --set benchmark.find_undecided=true."
        blocks.append(Sentence(remark, "note"))
    yield Section(title, tuple(blocks))


def _counts(report: GoldReport) -> Table:
    always = ("rows", "empty", "error")
    rows = [
        (CLASSES[name], number(count)) for name, count in report.counts.items() if count or name in always
    ]
    total = ("total", number(len(report.checks)))
    slow = (f"slow (over {report.slow_s:g} s)", number(len(report.slow)))
    caption = "" if report.p95_s is None else f"95th percentile: {rounded(1000 * report.p95_s)} ms"
    return Table("Gold", ("", "queries"), (*rows, None, total, slow), caption)


def _list(title: str, checks: Sequence[GoldCheck]) -> Iterator[Section]:
    if not checks:
        return
    blocks: list[Block] = []
    for check in checks[:MAX_LISTED]:
        duration = "" if check.seconds is None else f", {seconds(check.seconds)}"
        error = f": {check.error}" if check.error else ""
        blocks.append(Sentence((f"  {check.id} ", Span(f"({check.database_id}{duration})", "quiet"), error)))
        blocks.append(Sentence(f"    {' '.join(check.sql.split())[:200]}", "note"))
    if rest := and_more(checks, MAX_LISTED):
        blocks.append(Sentence(f"  {rest}: --json lists all", "note"))
    yield Section(f"{title} ({len(checks):,})", tuple(blocks))


def _per_database(title: str, checks: Sequence[GoldCheck]) -> Iterator[Section]:
    """List ids by database, the database with most of them first."""
    if not checks:
        return
    ids: dict[str, list[str]] = {}
    for check in checks:
        ids.setdefault(check.database_id, []).append(check.id)
    databases = sorted(ids, key=lambda name: -len(ids[name]))
    lines = [f"{name} ({len(ids[name]):,}): {shorten(ids[name], MAX_IDS)}" for name in databases[:MAX_LISTED]]
    if rest := and_more(databases, MAX_LISTED, noun="database"):
        lines.append(f"{rest}: --json lists all")
    yield Section(f"{title} ({len(checks):,})", (Bullets(tuple(lines)),))


class SqlDocument(JsonDocument):
    """One SQL of a key."""

    sql: str
    status: str = at("execution", "status", default="missing_database")
    error: str = at("execution", "error", default="")
    row_count: int | None = at("execution", "row_count", default=None)
    same_as_official: bool | None = at("same")


class EntryDocument(JsonDocument):
    """What a key changes of one question."""

    question_id: str = at("entry", "question_id")
    action: str = at("entry", "action")
    reason: str = at("entry", "reason")
    source: str = at("entry", "source")
    question: str | None = at("entry", "question")
    evidence: str | None = at("entry", "evidence")
    database: str = at("question", "database_id")
    other_text: bool
    sql: tuple[SqlDocument, ...] = at("sqls")


class KeyDocument(JsonDocument):
    """What `benchmarks verify --key --json` prints."""

    benchmark: str = at("benchmark", "name")
    revision: str = at("benchmark", "revision")
    rule: str = at("benchmark", "rule")
    key: str = at("key", "name")
    file: Path = at("key", "file")
    sha256: str = at("key", "sha256")
    actions: dict[str, int]
    differing: tuple[str, ...]
    same_as_official: tuple[str, ...] = at("same")
    other_text: tuple[str, ...]
    absent: Annotated[list[str], BeforeValidator(sorted)] = at("key", "absent")
    not_run: tuple[str, ...]
    problems: tuple[str, ...]
    entries: tuple[EntryDocument, ...]


def key_document(checked: CheckedKey) -> Document:
    """Return the counts, the questions whose result differs or does not, and everything that is wrong."""
    key, benchmark = checked.key, checked.benchmark
    revision = f", revision {benchmark.revision} · rule {benchmark.rule}"
    actions = ", ".join(f"{count} {action}" for action, count in checked.actions.items())
    listed = (
        (f"Another result than the official gold (rule {benchmark.rule})", checked.differing),
        (f"The result of the official gold (rule {benchmark.rule}), so that nothing changes", checked.same),
        (
            "Another text, so that answers to the benchmark's own text are not scored by this key",
            checked.other_text,
        ),
        ("Not in the key, so that they are not scored by it", sorted(key.absent)),
        ("Not run, the database is missing", checked.not_run),
    )
    blocks: list[Block] = [Sentence(f"{key.file}, sha256 {key.sha256}", "note")]
    blocks += [Sentence(note, "warning") for note in key.notes]
    blocks += [
        Sentence(f"{title}: {counted(len(ids), 'question')} ({shorten(ids, MAX_LISTED)})")
        for title, ids in listed
        if ids
    ]
    if checked.problems:
        title = Span(counted(len(checked.problems), "problem"), "bad")
        blocks.append(Section(title, (Bullets(tuple(checked.problems)),), notes=True))
    else:
        has_sql = any(entry.sqls for entry in checked.entries)
        blocks.append(Sentence("Every SQL runs." if has_sql else "There is no SQL to run."))
    return Document(
        f"The key {key.name} changes {counted(len(checked.entries), 'question')}",
        tuple(blocks),
        (Span("Crosscheck · answer key of ", "quiet"), Span(benchmark.name, "strong"), revision),
        actions,
        "bad" if checked.problems else "",
        reading(
            Sentence(
                "Every SQL of the key is run, and its result compared with the official gold's under the "
                "benchmark's rule. With another result, the key can judge an answer otherwise than the "
                "official gold; with the same result it cannot. A question with another text is not scored by "
                "the key: the models did not see that text."
            )
        ),
        name=f"{key.name}: answer key of {benchmark.name}",
    )
