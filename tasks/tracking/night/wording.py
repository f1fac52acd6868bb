"""What a night says of itself, in words that its page, its Markdown and the command line share."""

import shlex
from collections.abc import Iterator, Sequence

from tasks.tracking.night.records import Entry, Night


def facts(night: Night) -> Iterator[tuple[str, str]]:
    """Yield what a reader must know before the numbers: when, what, how; as names and values."""
    took = duration((night.finished - night.started).total_seconds())
    yield "when", f"{night.started:%Y-%m-%d %H:%M} to {night.finished:%H:%M} UTC ({took})"
    yield "matrix", _matrix(night)
    if chosen := _chosen(night):
        yield "questions", chosen
    if overrides := night.matrix.get("overrides"):
        yield "settings changed", ", ".join(map(str, overrides))
    yield (
        "answers",
        "the models were asked again" if night.asked_again else "what was answered before is reused",
    )


def gate_in_words(night: Night) -> str:
    """Say what makes the night red."""
    gate = night.gate
    return (
        f"A night is red for a regression: a loss of at least {gate.threshold:g} points with p < {gate.level:g} in the "
        "exact McNemar test on the questions that both runs have an answer to, adjusted for the number of comparisons "
        "of the night (Holm). It is red for infrastructure: an evaluation that could not start or stopped, or more "
        f"than {100 * gate.tolerated_failures:g} % of its questions without an answer. Questions that an endpoint left "
        "unanswered count as wrong in EX and are left out of the test."
    )


def compare_command(entry: Entry) -> str:
    """Return the command that shows all that two runs answer differently."""
    return f"crosscheck compare {entry.baseline} {entry.run_id} --html comparison.html"


def night_command(night: Night) -> str:
    """Return the command that makes the page again."""
    return f"crosscheck night {shlex.quote(night.name)} --html night.html"


def what_continues(entry: Entry) -> str:
    """Say what the command does that mends an entry."""
    if entry.run_id:
        return f"{questions(entry.unanswered)} without an answer. This asks only those again, and merges:"
    return "This evaluates it again; what was paid for is reused:"


def lost(entry: Entry) -> str:
    """Say how many questions have no answer, by kind of failure; a dash for none."""
    kinds = [f"{count:,} {kind.replace('_', ' ')}" for kind, count in entry.failures.items() if count]
    return ", ".join(kinds) or "\N{EN DASH}"


def money(cost_usd: float | None, calls: int | None) -> str:
    """Write what was paid; "unknown" where a paid call has no price, a dash where nothing was evaluated."""
    if calls is None:
        return "\N{EN DASH}"
    return "unknown" if cost_usd is None else f"${cost_usd:,.4f}"


def count(number: int | None) -> str:
    """Write a count; a dash where nothing was evaluated."""
    return "\N{EN DASH}" if number is None else f"{number:,}"


def questions(number: int) -> str:
    """Write a number of questions.

    >>> questions(1), questions(1200)
    ('1 question', '1,200 questions')
    """
    return f"{number:,} question{'' if number == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """Write how long something took; a dash where that is not known.

    >>> duration(12.4), duration(200), duration(9000), duration(None)
    ('12 s', '3 min 20 s', '2 h 30 min', '–')
    """
    if seconds is None:
        return "\N{EN DASH}"
    whole = round(seconds)
    for size, unit, small_size, small in ((3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {unit}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def _matrix(night: Night) -> str:
    kinds = [(kind, [str(name) for name in night.matrix.get(f"{kind}s", ())]) for kind in _KINDS]
    said = " × ".join(f"{_counted(names, kind)}" for kind, names in kinds if names)
    listed = "; ".join(", ".join(names) for _, names in kinds if names)
    return f"{said}: {listed}" if said else f"{len(night.entries)} evaluations"


_KINDS = ("benchmark", "backbone", "pipeline")


def _counted(names: Sequence[str], kind: str) -> str:
    return f"{len(names)} {kind}{'' if len(names) == 1 else 's'}"


def _chosen(night: Night) -> str:
    wanted, limit = night.matrix.get("questions"), night.matrix.get("limit")
    parts = [*([str(wanted)] if wanted else []), *([f"the first {limit:,}"] if limit else [])]
    return ", ".join(parts)
