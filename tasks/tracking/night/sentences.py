"""Facts and sentences about a nightly run that its page, its Markdown and the command line share."""

import shlex
from collections.abc import Iterator

from tasks.tracking.night.night import Entry, Judged, Night
from tasks.wording import DASH, counted, duration, p_value, points


def facts(night: Night) -> Iterator[tuple[str, str]]:
    """Yield the facts that stand before the numbers: when, what, how; as names and values."""
    took = duration((night.finished - night.started).total_seconds())
    yield "when", f"{night.started:%Y-%m-%d %H:%M} to {night.finished:%H:%M} UTC ({took})"
    yield "matrix", _matrix(night)
    if chosen := _chosen(night):
        yield "questions", chosen
    if overrides := night.matrix.get("overrides"):
        yield "settings changed", ", ".join(map(str, overrides))
    yield "answers", "the models were asked again" if night.asked_again else "known answers were reused"
    if night.cleaned:
        yield "working folder", night.cleaned
    if night.expected:
        yield "next", f"expected {night.expected:%Y-%m-%d %H:%M} UTC"


def gate_in_words(night: Night) -> str:
    """State when a nightly run is red, amber and green."""
    gate = night.gate
    return (
        f"Red, a regression: a loss of at least {gate.threshold:g} points with p < {gate.level:g} "
        "in the exact McNemar test on the questions that both runs have an answer to, adjusted for the number of "
        "comparisons of the nightly run (Holm). Red, infrastructure: an evaluation that could not start or "
        f"stopped, or more than {100 * gate.tolerated_failures:g} % of its questions without an answer. "
        f"Amber, possibly worse: a loss of at least {gate.threshold:g} points with p < {gate.doubt_level:g} in the "
        f"same test without the adjustment. Amber, declining: the last scores, {gate.trend_nights} at most, lose at "
        f"least {gate.threshold:g} points by Sen's slope, with p < {gate.trend_level:g} in the one-sided Mann-Kendall "
        "test, adjusted for the number of trends (Holm). Green: everything else. Questions that an endpoint left unanswered "
        "count as wrong in EX and are left out of the McNemar test. A red or amber run never becomes the next baseline "
        "by itself: nightly runs are compared with the last that was not worse, until they are as good again or "
        '"crosscheck baseline RUN --reason TEXT" moves the baseline.'
    )


def decline(judged: Judged) -> str:
    """Describe the trend of an evaluation's last scores; "" where there are too few."""
    found = judged.entry.decline
    if found is None:
        return ""
    return (
        f"{points(found.change)} points over the last {found.scores} scores (Sen's slope), "
        f"p = {p_value(judged.trend_p)} that they do not decline (Mann-Kendall, Holm)"
    )


def compare_command(entry: Entry) -> str:
    """Return the command that shows every question on which two runs differ."""
    return f"crosscheck compare {entry.baseline} {entry.run_id} --html comparison.html"


def night_command(night: Night) -> str:
    """Return the command that writes the page again."""
    return f"crosscheck night {shlex.quote(night.name)} --html night.html"


def what_continues(entry: Entry) -> str:
    """Describe what `continue_with` of an entry does."""
    if entry.run_id:
        return f"{counted(entry.unanswered, 'question')} without an answer. This asks only those again, and merges:"
    return "This evaluates it again; what was paid for is reused:"


def failures(entry: Entry) -> str:
    """List how many questions have no answer, by kind of failure; a dash for none."""
    kinds = [f"{count:,} {kind.replace('_', ' ')}" for kind, count in entry.failures.items() if count]
    return ", ".join(kinds) or DASH


def _matrix(night: Night) -> str:
    kinds = [
        (kind, [str(name) for name in night.matrix.get(f"{kind}s", ())])
        for kind in ("benchmark", "backbone", "pipeline")
    ]
    sizes = " × ".join(counted(len(names), kind) for kind, names in kinds if names)
    listed = "; ".join(", ".join(names) for _, names in kinds if names)
    return f"{sizes}: {listed}" if sizes else f"{len(night.entries)} evaluations"


def _chosen(night: Night) -> str:
    wanted, limit = night.matrix.get("questions"), night.matrix.get("limit")
    parts = [*([str(wanted)] if wanted else []), *([f"the first {limit:,}"] if limit else [])]
    return ", ".join(parts)
