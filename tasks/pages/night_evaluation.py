"""One evaluation of a nightly run on its page: the comparison, the trend, stages, causes and questions."""

import datetime
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tasks.core.wording import (
    DASH,
    agreeing,
    and_more,
    counted,
    counts,
    duration,
    money,
    number,
    p_value,
    percent,
    points,
    signed,
)
from tasks.documents.model import (
    Block,
    Bullets,
    Code,
    Column,
    Columns,
    Figure,
    Inline,
    Line,
    LinePoint,
    Lines,
    Questions,
    Section,
    Sentence,
    Span,
    Table,
    Tone,
)
from tasks.pages.comparison import FLIP_FILTERS, question_item, settings_table
from tasks.pages.scores import in_words
from tasks.results.night import INCOMPLETE, WORSE, Night, NightEntry, NightVerdict, Past
from tasks.results.night_baseline import Detail
from tasks.results.run_record import RunRecord
from tasks.scoring.scores import CONFIDENCE
from tasks.settings.choices import QuestionSelection

_PATIENCE = datetime.timedelta(hours=1)
"""A nightly run is overdue at the earliest this long after its expected start."""


def facts(night: Night) -> Iterator[tuple[str, str]]:
    """Yield the facts that stand before the numbers: when, what, how; as names and values."""
    took = duration((night.finished - night.started).total_seconds())
    yield "when", f"{night.started:%Y-%m-%d %H:%M} to {night.finished:%H:%M} UTC ({took})"
    yield "matrix", _matrix(night)
    kinds = ("benchmarks", "backbones", "pipelines")
    names = [str(name) for kind in kinds for name in night.matrix.get(kind, ())]
    if files := [name for name in names if "/" in name]:  # the entries have the names in them
        yield "files", ", ".join(files)
    selection = {name: night.matrix.get(name) for name in QuestionSelection.model_fields}
    if chosen := QuestionSelection.model_construct(**selection).in_words:
        yield "questions", chosen
    if overrides := night.matrix.get("overrides"):
        yield "settings changed", ", ".join(map(str, overrides))
    yield "replies", "new ones were requested" if night.new_replies else "cached ones were reused"
    if night.cleaned:
        yield "working folder", night.cleaned
    if night.expected:
        yield "next", f"expected {night.expected:%Y-%m-%d %H:%M} UTC"


def rules(night: Night) -> list[tuple[str, str]]:
    """State what each verdict means, with the test behind it; as verdicts and sentences."""
    gate = night.gate
    loss = f"at least {gate.threshold:g} point{'' if gate.threshold == 1 else 's'}"
    measured = ""
    if any(entry.noise and entry.noise.decides for entry in night.entries):
        measured = " If the flip rate was measured, p is that of the difference at this rate."
    mcnemar = "the exact McNemar test on the questions that both runs have an answer to"
    return [
        (
            "red: regression",
            f"A loss of {loss}, with p < {gate.level:g} in {mcnemar}, adjusted for the number of comparisons of the "
            f"nightly run (Holm).{measured}",
        ),
        (
            "red: not evaluated, not completed",
            "An evaluation that could not start, stopped early or cannot be compared.",
        ),
        (
            "red: too many unanswered",
            f"More than {100 * gate.tolerated_failures:g} % of the questions have no answer. These count as wrong in "
            "EX and are left out of the tests of a loss.",
        ),
        (
            "amber: possibly worse",
            f"A loss of {loss}, with p < {gate.doubt_level:g} in the same test without the adjustment.",
        ),
        (
            "amber: declining",
            f"The last scores, {gate.trend_nights} at most, lose {loss} by Sen's slope, with p < {gate.trend_level:g} "
            "in the one-sided Mann-Kendall test, adjusted for the number of trends (Holm).",
        ),
        (
            "amber: degraded",
            f"At least {100 * gate.degraded_share:g} % of the answered questions have a stage with an unreadable "
            "reply, a fallback or a failure: the score is that of a simpler pipeline.",
        ),
        (
            "no baseline yet",
            "There is no earlier run to compare with. The next run is compared with this one.",
        ),
        ("green", "Everything else."),
        (
            "baseline",
            "A pinned run, else the last run that was not worse: a red or amber run never becomes the baseline by "
            'itself. "crosscheck nights baseline RUN --reason TEXT" moves it.',
        ),
    ]


def overdue(night: Night, now: datetime.datetime) -> str:
    """Return a sentence if the nightly run after `night`, the latest one, should have ended by now, else ""."""
    took = night.finished - night.started
    if night.expected is None or now < night.expected + max(2 * took, _PATIENCE):
        return ""
    return (
        f"The nightly run of {night.expected:%Y-%m-%d %H:%M} UTC is overdue: it has left nothing here. "
        '"crosscheck nights status" shows the schedule and the workers.'
    )


def todo(night: Night) -> Iterator[tuple[str, str]]:
    """Yield what to do next, the most urgent first, and the command that does it; "" where there is none."""
    incomplete = [entry for entry in night.entries if entry.continue_with and entry.verdict in INCOMPLETE]
    if len(incomplete) > 1:
        evaluations = counted(len(incomplete), "evaluation")
        yield f"Answer what is left of {evaluations}; what was paid for is reused:", rerun_command(night)
    for entry in sorted(night.entries, key=lambda entry: entry not in incomplete):
        name = entry.model_and_pipeline
        if len(incomplete) == 1 and entry in incomplete:
            how = "Answer the remaining questions of" if entry.run_id else "Fix it, then evaluate"
            yield f"{how} {name}:", entry.continue_with
        elif entry.verdict == "regression":
            yield f"See what {name} broke:", compare_command(entry)
            yield "Fix it, or accept the loss:", f"crosscheck nights baseline {entry.run_id} --reason TEXT"
        elif entry.verdict == "possibly worse":
            yield f"Not proven for {name}: the next night is compared with the same baseline.", ""
        elif entry.verdict == "declining":
            yield f"See what {name} has lost:", f"crosscheck compare {entry.trend[0].run_id} {entry.run_id}"
        elif entry.verdict == "degraded":
            yield f"See which stages of {name} fell back:", f"crosscheck show {entry.run_id}"
    if night.colour in ("Green", "No baseline yet"):
        yield "Nothing.", ""


def decline(entry: NightEntry) -> str:
    """Describe the trend of an evaluation's last scores; "" where there are too few."""
    trend = entry.decline
    if trend is None:
        return ""
    return (
        f"{points(trend.change)} points over the last {trend.scores} scores (Sen's slope), "
        f"p = {p_value(entry.trend_p)} that they do not decline (Mann-Kendall, Holm)"
    )


def noise(entry: NightEntry) -> str:
    """Describe the measured flip rate by which an evaluation is judged; "" without one."""
    measured = entry.noise
    if measured is None or entry.comparison is None:
        return ""
    mcnemar = f"the exact McNemar test: p = {p_value(entry.comparison.p_value)}"
    how = f"At this rate, {mcnemar}, which decides, since it proves smaller losses than the rate does."
    if measured.decides:
        bound = f"{100 * measured.flip_bound:.2f} %"
        p_at_rate = p_value(entry.p_value)
        how = f"At this rate (at most {bound}), the difference has p = {p_at_rate}, which decides; {mcnemar}."
    return (
        f"Noise: {100 * measured.flip_rate:.2f} % of the verdicts flip between identical runs, measured on "
        f"{counted(measured.runs, 'repeat')} of {measured.run_id}. {how} {measured.proves}"
    )


def compare_command(entry: NightEntry) -> str:
    """Return the command that shows every question on which two runs differ."""
    return f"crosscheck compare {entry.baseline} {entry.run_id} --html comparison.html"


def variants(night: Night) -> Iterator[str]:
    """Say on which questions the score variants of each evaluation give another verdict."""
    for entry in night.entries:
        for score in entry.variants.values():
            differ = score.differs.in_words() or "nothing"
            yield f"{entry.name}: {score.title} {in_words(score)}; what differs: {differ}"


def rerun_command(night: Night) -> str:
    """Return the command that asks everything again that a nightly run left without an answer."""
    return f"crosscheck rerun --night {shlex.quote(night.name)}"


def failures(entry: NightEntry) -> str:
    """List how many questions have no answer, by kind of failure; a dash for none."""
    by_kind = entry.run.failures if entry.run else {}
    counts_of_kinds = [f"{count:,} {kind.replace('_', ' ')}" for kind, count in by_kind.items() if count]
    return ", ".join(counts_of_kinds) or DASH


def _matrix(night: Night) -> str:
    kinds = {
        kind: list(dict.fromkeys(getattr(entry, kind) for entry in night.entries))
        for kind in ("benchmark", "backbone", "pipeline")
    }
    sizes = " × ".join(counted(len(names), kind) for kind, names in kinds.items())
    return f"{sizes}: {'; '.join(', '.join(names) for names in kinds.values())}"


def earlier(night: Night) -> str:
    """Say what other runs under a nightly run's name paid; "" if there were none."""
    if night.earlier.usd == 0:
        return ""
    attempts = "Other runs under its name (of earlier attempts, or without a score) paid"
    if night.earlier.usd is not None:
        return f"{attempts} {money(night.earlier.usd)} more"
    if not night.earlier.least_usd:
        return f"{attempts} an unknown amount more"
    return (
        f"{attempts} at least {money(night.earlier.least_usd)} more; the cost of their last calls is unknown"
    )


def paid(night: Night) -> str:
    """Say what a nightly run and other runs under its name paid, or what they paid at least."""
    if night.paid_usd is None and night.paid_least_usd:
        return f"at least {money(night.paid_least_usd)}"
    return money(night.paid_usd)


def notes_on_money(night: Night) -> list[str]:
    """Return what was saved of the list price, and what other runs under the night's name paid; neither if nothing."""
    cost = night.cost
    parts = (
        ("the provider's prompt cache", cost.prompt_cache_usd),
        ("the tier", cost.tier_usd),
        ("the reply cache", cost.reply_cache_usd),
    )
    savings = [f"{money(usd)} saved by {source}" for source, usd in parts if usd]
    saved = "; ".join([f"List price {money(cost.list_usd)}", *savings]) if savings else ""
    return [note for note in (saved, earlier(night)) if note]


MAX_BROKEN, MAX_FIXED, MAX_UNANSWERED = 20, 10, 10
"""Questions of one evaluation that the page shows at most; a command shows all of them."""
DENSE = 30
"""Scores of a trend beyond which its chart is wide, with a band instead of an interval each."""
IN_WORDS = 14
"""Scores of a trend that its description names at most."""
_TONES: dict[NightVerdict, Tone] = {
    "regression": "bad", "infrastructure": "bad", "too many unanswered": "bad", "possibly worse": "doubt",
    "declining": "doubt", "degraded": "doubt", "better": "better", "no worse": "good", "no baseline": "quiet",
    "not ranked": "quiet",
}  # fmt: skip


def badge(entry: NightEntry) -> Span:
    """Return the verdict of an evaluation."""
    return Span(entry.verdict_in_words, _TONES[entry.verdict] if entry.verdict else "", "badge")


def kind(entry: NightEntry) -> str:
    """Return how charts draw an evaluation."""
    if entry.verdict == "regression":
        return "worse"
    return "doubt" if entry.colour == "Amber" else "now"


def trend_in_words(trend: Sequence[Past]) -> str:
    """Return the last scores in words."""
    if len(trend) <= IN_WORDS:
        scores = ", ".join(f"{past.started:%d %b} {percent(past.ex)}" for past in trend)
        return f"the last {len(trend)} scores: {scores}"
    first, last = (f"{past.started:%d %b %Y} {percent(past.ex)}" for past in (trend[0], trend[-1]))
    low, *_, high = sorted(trend, key=lambda past: past.ex.ex or 0.0)
    ends = f"lowest {percent(low.ex)}, highest {percent(high.ex)}"
    return f"the last {len(trend)} scores, from {first} to {last}; {ends}"


def evaluation_section(number: int, detail: Detail) -> Section:
    """Return everything about one evaluation."""
    entry = detail.entry
    system = (entry.pipeline, Span(" with ", "quiet"), entry.backbone)
    title = (*system, Span(" on ", "quiet"), f"{entry.benchmark} ", badge(entry))
    return Section(title, tuple(_blocks(detail)), f"evaluation-{number}")


def _blocks(detail: Detail) -> Iterator[Block]:
    entry = detail.entry
    comparison = entry.comparison
    if comparison:
        verdict = replace(comparison, name_a="the baseline", name_b="this run").verdict
        yield Sentence(verdict[:1].upper() + verdict[1:])
    elif entry.not_ranked:
        yield Sentence(f"It {entry.not_ranked}, so it is compared with nothing.")
    elif entry.run:
        yield Sentence("There is no earlier complete run of the same questions to compare it with.")
    for score in entry.variants.values():
        differ = f"; they differ: {words}" if (words := score.differs.in_words()) else ""
        yield Sentence(f"{score.title} {in_words(score)}, official {in_words(entry.ex)}{differ}.")
    yield Sentence(_runs(entry), "note")
    if entry.noise:
        yield Sentence(noise(entry), "note")
    if entry.decline:
        yield Sentence(f"Trend: {decline(entry)}.", "note")
    if detail.missing:
        yield Sentence(f"Questions, stages and causes are not shown: {detail.missing}", "message")
    warnings = detail.comparison.warnings if detail.comparison else ()
    about: tuple[Inline, ...] = tuple(
        (warning, Span(" (A: baseline, B: this run)", "quiet")) for warning in warnings
    )
    notes = entry.run.notes if entry.run else ()
    yield Bullets((*(Span(sentence, "strong") for sentence in entry.degradation), *notes, *about))
    yield Columns(tuple(_panels(detail)))
    if detail.retryable:
        yield _retryable(detail)
    yield from _changed_questions(detail)


def _runs(entry: NightEntry) -> Inline:
    if entry.run is None:
        return "no run was made"
    baseline = (", baseline ", Span(entry.baseline, "code")) if entry.baseline else ()
    pinned = f", {entry.pinned}" if entry.pinned else ""
    return "run ", Span(entry.run.run_id, "code"), ", rule ", Span(entry.run.rule, "code"), *baseline, pinned


def _panels(detail: Detail) -> Iterator[Block]:
    entry = detail.entry
    if len(entry.trend) > 2:
        remark = "; hollow and dashed: the baseline" if entry.baseline else ""
        caption = f"The last {len(entry.trend)} complete runs, with {100 * CONFIDENCE:g} % intervals{remark}"
        yield Figure(caption, _trend_chart(entry), len(entry.trend) > DENSE)
    if entry.run and not detail.missing:
        arrow = ": baseline → this run" if detail.comparison else ""
        yield from _stages(detail.baseline, entry.run, arrow)
        yield from _causes(detail.baseline, entry.run, arrow)
    if detail.comparison and detail.comparison.settings:
        yield settings_table(detail.comparison.settings, ("baseline", "this run"))


def _stages(baseline: RunRecord | None, run: RunRecord, arrow: str) -> Iterator[Table]:
    """Yield the table of the stages of both runs, if there are several; `arrow`: "" without a comparison."""
    before, now = (
        {stage.name: stage for stage in record.stages} if record else {} for record in (baseline, run)
    )
    rows = tuple(
        (
            name.replace("_", " "),
            _before_and_now(percent(before.get(name)), percent(now.get(name)), bool(arrow)),
            counts(now.get(name)),
            *(
                _before_and_now(
                    number(getattr(before.get(name), flip, None), missing=DASH),
                    number(getattr(now.get(name), flip, None), missing=DASH),
                    bool(arrow),
                )
                for flip in ("fixed", "broken")
            ),
        )
        for name in dict.fromkeys([*now, *before])
    )
    if len(rows) > 1:
        headers = ("after", "EX", Column("right", under=True), "put right", "made wrong")
        yield Table(f"What each stage did{arrow}", headers, rows)


def _causes(baseline: RunRecord | None, run: RunRecord, arrow: str) -> Iterator[Table]:
    """Yield the table of the causes of wrong answers in both runs, the largest change first, if there are any."""
    before = (baseline.metrics.get("errors") or {}) if baseline else {}
    now = run.metrics.get("errors") or {}
    changes = {
        name: now.get(name, 0) - before.get(name, 0)
        for name in dict.fromkeys([*now, *before])
        if before.get(name) or now.get(name)
    }
    rows = tuple(
        (
            name.replace("_", " "),
            _before_and_now(number(before.get(name, 0)), number(now.get(name, 0)), bool(before)),
            signed(changes[name]) if before and changes[name] else "",
        )
        for name in sorted(changes, key=lambda name: (-abs(changes[name]), -now.get(name, 0)))
    )
    if rows:
        remark = "A wrong answer can have several causes."
        columns = ("cause", "questions", "change" if arrow else "")
        yield Table(f"Why answers are wrong{arrow}", columns, rows, remark)


def _before_and_now(before: str, now: str, both: bool) -> Inline:
    return (Span(f"{before} → ", "quiet"), now) if both else now


def _trend_chart(entry: NightEntry) -> Lines:
    """Return the chart of the last scores; a dashed line begins at the baseline's, if it is one of them."""
    trend = entry.trend
    line_points = []
    for past in trend:
        last = past is trend[-1]
        earlier_shape = "before" if past.run_id == entry.baseline else "past"
        low, high = (100 * end for end in past.ex.interval or (0.0, 1.0))
        tip = f"{past.started:%Y-%m-%d %H:%M} UTC: {percent(past.ex)}, {counts(past.ex)}"
        value = 100 * (past.ex.ex or 0.0)
        shape = kind(entry) if last else earlier_shape
        line_points.append(LinePoint(past.started.timestamp(), value, low, high, shape, tip, emphasised=last))
    baseline = next((point for point in line_points if point.kind == "before"), None)
    dense = len(trend) > DENSE
    steps = 6 if dense else 1  # from tick to tick
    first = trend[0].started
    whole = trend[-1].started - trend[0].started
    moments = [first + whole * step / steps for step in range(steps + 1)]
    ticks = tuple((moment.timestamp(), f"{moment:%d %b}") for moment in moments)
    line = Line(tuple(line_points), "trend")
    return Lines((line,), trend_in_words(trend), ticks, level=baseline, dense=dense)


def _retryable(detail: Detail) -> Section:
    rows = detail.retryable
    items: list[Inline] = [
        (
            Span(row.question.id, "strong"), Span(f" {row.question.database_id} ", "quiet"),
            f"{row.question.text}: {row.outcome.failure.message if row.outcome.failure else ''}",
        )
        for row in rows[:MAX_UNANSWERED]
    ]  # fmt: skip
    if rest := and_more(rows, MAX_UNANSWERED):
        sql = (
            "SELECT question_id, question, failure FROM questions "
            f"WHERE run_id = '{detail.entry.run_id}' AND failure IS NOT NULL"
        )
        items.append((f"{rest}: ", Span(f'crosscheck query "{sql}"', "code")))
    title = f"{counted(len(rows), 'question')} without an answer"
    return Section(title, (Bullets(tuple(items)),), fold="closed")


def _changed_questions(detail: Detail) -> Iterator[Block]:
    entry = detail.entry
    comparison = entry.comparison
    if comparison is None or not comparison.differing:
        return
    flips = (*detail.broken[:MAX_BROKEN], *detail.fixed[:MAX_FIXED])
    questions = Questions(
        tuple(question_item(flip, ("baseline", "this run"), fold=True) for flip in flips), FLIP_FILTERS
    )
    rest = len(comparison.broken) + len(comparison.fixed) - len(flips)
    more = f"{rest:,} more {agreeing('is', rest)} not shown. " if rest else ""
    title = f"{counted(len(comparison.broken), 'question')} broken, {number(len(comparison.fixed))} fixed"
    blocks = (
        *((questions,) if flips else ()),
        Sentence(f"{more}All of them, also by stage, difficulty and database:", "note"),
        Code(compare_command(entry)),
    )
    yield Section(title, blocks, fold="open" if entry.verdict in WORSE else "closed")
