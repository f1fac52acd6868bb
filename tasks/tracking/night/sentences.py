"""Facts and sentences about a nightly run that its page, its Markdown and the command line share."""

import datetime
import shlex
from collections.abc import Iterator

from tasks.core.wording import DASH, counted, counts, duration, money, p_value, percent, points
from tasks.scoring.cost import Cost
from tasks.scoring.statistics.noise import POWER
from tasks.tracking.night.entry import Entry
from tasks.tracking.night.night import Night

_PATIENCE = datetime.timedelta(hours=1)


def facts(night: Night) -> Iterator[tuple[str, str]]:
    """Yield the facts that stand before the numbers: when, what, how; as names and values."""
    took = duration((night.finished - night.started).total_seconds())
    yield "when", f"{night.started:%Y-%m-%d %H:%M} to {night.finished:%H:%M} UTC ({took})"
    yield "matrix", _matrix(night)
    if files := _files(night):
        yield "files", files
    if chosen := _chosen(night):
        yield "questions", chosen
    if overrides := night.matrix.get("overrides"):
        yield "settings changed", ", ".join(map(str, overrides))
    yield "answers", "new replies were requested" if night.new_replies else "cached replies were reused"
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
            "red: infrastructure",
            f"An evaluation that could not start or stopped, or more than {100 * gate.tolerated_failures:g} % of its "
            "questions without an answer. These count as wrong in EX and are left out of the tests of a loss.",
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
            'itself. "crosscheck baseline RUN --reason TEXT" moves it.',
        ),
    ]


def overdue(night: Night, now: datetime.datetime) -> str:
    """Say that the run after this one, the latest, should have ended by now; "" where it need not have."""
    took = night.finished - night.started
    if night.expected is None or now < night.expected + max(2 * took, _PATIENCE):
        return ""
    return (
        f"The nightly run of {night.expected:%Y-%m-%d %H:%M} UTC is overdue: it has left nothing here. "
        '"crosscheck up --check" shows what is running.'
    )


def todo(night: Night) -> Iterator[tuple[str, str]]:
    """Yield what to do next, the most urgent first, and the command that does it; "" where there is none."""
    for entry in sorted(night.entries, key=lambda each: each.verdict != "infrastructure"):
        if entry.continue_with and entry.verdict == "infrastructure":
            name = entry.model_and_pipeline
            todo = (
                f"Answer the remaining questions of {name}:"
                if entry.run_id
                else f"Fix it, then evaluate {name}:"
            )
            yield todo, entry.continue_with
        elif entry.verdict == "regression":
            yield f"See what {entry.model_and_pipeline} broke:", compare_command(entry)
            yield "Fix it, or accept the loss:", f"crosscheck baseline {entry.run_id} --reason TEXT"
        elif entry.verdict == "possibly worse":
            yield (
                f"Not proven for {entry.model_and_pipeline}: the next night is compared with the same baseline.",
                "",
            )
        elif entry.verdict == "declining":
            yield (
                f"See what {entry.model_and_pipeline} has lost:",
                f"crosscheck compare {entry.trend[0].run_id} {entry.run_id}",
            )
        elif entry.verdict == "degraded":
            yield (
                f"See which stages of {entry.model_and_pipeline} fell back:",
                f"crosscheck show {entry.run_id}",
            )
    if night.colour in ("Green", "No baseline yet"):
        yield "Nothing.", ""


def decline(entry: Entry) -> str:
    """Describe the trend of an evaluation's last scores; "" where there are too few."""
    found = entry.decline
    if found is None:
        return ""
    return (
        f"{points(found.change)} points over the last {found.scores} scores (Sen's slope), "
        f"p = {p_value(entry.trend_p)} that they do not decline (Mann-Kendall, Holm)"
    )


def noise(entry: Entry) -> str:
    """Describe the measured flip rate by which an evaluation is judged; "" without one."""
    found = entry.noise
    if found is None or entry.comparison is None:
        return ""
    mcnemar = f"the exact McNemar test: p = {p_value(entry.comparison.p_value)}"
    how = (
        f"At this rate (at most {100 * found.flip_bound:.2f} %), the difference has p = {p_value(entry.p_value)}, "
        f"which decides; {mcnemar}."
        if found.decides
        else f"At this rate, {mcnemar}, which decides, since it proves smaller losses than the rate does."
    )
    loss = 100 * min(found.by_rate, found.by_mcnemar)
    return (
        f"Noise: {100 * found.flip_rate:.2f} % of the verdicts flip between identical runs, measured on "
        f"{counted(found.runs, 'repeat')} of {found.run_id}. {how} One night proves a loss of {loss:.2f} points or "
        f"more in {100 * POWER:g} % of the cases."
    )


def compare_command(entry: Entry) -> str:
    """Return the command that shows every question on which two runs differ."""
    return f"crosscheck compare {entry.baseline} {entry.run_id} --html comparison.html"


def variants(night: Night) -> Iterator[str]:
    """Say on which questions the score variants of each evaluation give another verdict."""
    for entry in night.entries:
        for score in entry.variants.values():
            differ = score.differs.in_words() or "nothing"
            yield f"{entry.name}: {score.title} {percent(score)} ({counts(score)}); what differs: {differ}"


def night_command(night: Night) -> str:
    """Return the command that writes the page again."""
    return f"crosscheck night {shlex.quote(night.name)} --html night.html"


def what_continues(entry: Entry) -> str:
    """Describe what `continue_with` of an entry does."""
    if entry.run_id:
        left = counted(entry.unanswered, "question")
        return f"{left} without an answer. This sends only those again, and merges the answers:"
    return "This evaluates it again; what was paid for is reused:"


def failures(entry: Entry) -> str:
    """List how many questions have no answer, by kind of failure; a dash for none."""
    kinds = [f"{count:,} {kind.replace('_', ' ')}" for kind, count in entry.failures.items() if count]
    return ", ".join(kinds) or DASH


def _matrix(night: Night) -> str:
    kinds = {
        kind: list(dict.fromkeys(getattr(entry, kind) for entry in night.entries))
        for kind in ("benchmark", "backbone", "pipeline")
    }
    sizes = " × ".join(counted(len(names), kind) for kind, names in kinds.items())
    return f"{sizes}: {'; '.join(', '.join(names) for names in kinds.values())}"


def _files(night: Night) -> str:
    """List the files of the user that the matrix names; the entries have the names in them."""
    named = [
        str(name) for kind in ("benchmarks", "backbones", "pipelines") for name in night.matrix.get(kind, ())
    ]
    return ", ".join(name for name in named if "/" in name)


def _chosen(night: Night) -> str:
    wanted, limit = night.matrix.get("questions"), night.matrix.get("limit")
    parts = [*([str(wanted)] if wanted else []), *([f"the first {limit:,}"] if limit else [])]
    return ", ".join(parts)


def earlier(night: Night) -> str:
    """Say what earlier attempts of a nightly run paid; "" if there were none."""
    if night.earlier.usd == 0:
        return ""
    attempts = "Earlier attempts of this nightly run paid"
    if night.earlier.usd is not None:
        return f"{attempts} {money(night.earlier.usd)} more"
    if not night.earlier.least_usd:
        return f"{attempts} an unknown amount more"
    return (
        f"{attempts} at least {money(night.earlier.least_usd)} more; the cost of their last calls is unknown"
    )


def paid(night: Night) -> str:
    """Say what a nightly run and earlier attempts paid, or what they paid at least."""
    if night.paid_usd is None and night.paid_least_usd:
        return f"at least {money(night.paid_least_usd)}"
    return money(night.paid_usd)


def saved(cost: Cost) -> str:
    """Return the list price of the paid calls and what was saved, as a clause; "" if nothing was."""
    parts = (
        ("the provider's prompt cache", cost.prompt_cache_usd),
        ("the tier", cost.tier_usd),
        ("the reply cache", cost.reply_cache_usd),
    )
    savings = [f"{money(usd)} saved by {what}" for what, usd in parts if usd]
    return "; ".join([f"List price {money(cost.list_usd)}", *savings]) if savings else ""
