"""Records of a nightly run: one entry per evaluation, its verdict, and whether the run failed."""

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError, computed_field

from tasks.core.errors import DataError, did_you_mean, first_problem
from tasks.core.files import atomic_write_text
from tasks.core.wording import agreeing, counted, shorten, storable
from tasks.documents.text import visible
from tasks.results.night_entry import INCOMPLETE, WORSE, Colour, NightEntry, NightVerdict
from tasks.results.run_record import adapter_of, json_of
from tasks.results.warehouse.run_names import LATEST, MAX_LISTED
from tasks.results.warehouse.views import MONEY
from tasks.scoring.cost import Cost, total
from tasks.scoring.significance import holm_of_known
from tasks.settings.evaluation import Gate, Keep
from tasks.settings.home import Home

BRIEF_FIELDS = {
    "name", "colour", "verdict", "started", "finished", "missed", "expected", "paid_usd", "paid_least_usd"
}  # fmt: skip
"""Fields of a night in a list of nights."""
MAX_MISSED = 7
MAX_PROBLEMS = 2
MAX_PROBLEM = 200
"""Characters of a problem that the verdict repeats."""
_WORST_FIRST: tuple[Colour, ...] = ("Red", "Amber", "No baseline yet", "Green")


_CLAUSES: Mapping[NightVerdict, tuple[str, str]] = {
    "regression": ("is", "significantly worse than the baseline"),
    "infrastructure": ("was", "not completed"),
    "too many unanswered": ("has", "too many questions without an answer"),
    "possibly worse": ("is", "worse than the baseline, which is not proven"),
    "declining": ("is", "declining over the last nights"),
    "degraded": ("has", "stages that fell back"),
}
"""What is said of evaluations with a verdict: a verb in the singular, and the rest of the clause."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier attempts of a nightly run paid, in US dollars."""

    usd: float | None = 0.0  # None if that is unknown: one of them was killed
    least_usd: float = 0.0  # the cost of the calls that are known


@dataclass(frozen=True, slots=True)
class Night:
    """A nightly run and its verdicts."""

    name: str
    gate: Gate  # when it fails
    entries: tuple[NightEntry, ...]  # in the order of the matrix
    # started, finished: when, in UTC
    started: datetime.datetime
    finished: datetime.datetime
    # what was evaluated, as the parameters of the flow
    matrix: Mapping[str, Any] = field(default_factory=dict)
    new_replies: bool = False  # whether new replies were requested although there were cached ones
    # what of old runs was kept when the working folder was cleaned afterwards; None: it was not cleaned
    keep: Keep | None = None
    cleaned: str = ""  # what the cleaning did, in sentences
    finish_by: str | None = None  # when it was to have ended, as the parameter says; None without a limit
    budget_usd: float | None = None  # limit on its cost in US dollars; None without a limit
    earlier: Earlier = Earlier()  # what earlier attempts under its name paid
    # when the schedule had nightly runs since the last one that left nothing here, in UTC
    missed: tuple[datetime.datetime, ...] = ()
    # when the schedule has the next one, in UTC; None without a schedule
    expected: datetime.datetime | None = None

    @property
    def worst_first(self) -> tuple[tuple[int, NightEntry], ...]:
        """Entries with their places in the matrix, from 1, the worst colour first."""
        numbered = enumerate(self.entries, 1)
        return tuple(sorted(numbered, key=lambda pair: _WORST_FIRST.index(pair[1].colour)))

    @property
    def worse(self) -> frozenset[str]:
        """Ids of the runs whose answers were found worse, those included that are incomplete.

        The scores of these count unanswered questions as wrong, so the trend does not decide.
        """
        answered = [
            replace(entry, problem="", decline=None) if entry.problem else entry for entry in self.entries
        ]
        return frozenset(
            entry.run_id for entry in answered if entry.run_id and _verdict(entry, self.gate) in WORSE
        )

    @property
    def cost(self) -> Cost:
        """Calls and money of all evaluations; money is unknown if that of one is."""
        costs = [entry.cost for entry in self.entries if entry.cost.calls is not None]
        return Cost(
            sum(cost.calls or 0 for cost in costs),
            sum(cost.cached_calls or 0 for cost in costs),
            **{name: total([getattr(cost, name) for cost in costs]) for name in MONEY},
        )

    @computed_field
    @property
    def paid_usd(self) -> float | None:
        """What it and earlier attempts under its name paid, in US dollars; None if that of an evaluation is unknown."""
        return total([self.cost.cost_usd, self.earlier.usd])

    @computed_field
    @property
    def paid_least_usd(self) -> float | None:
        """The least that it and earlier attempts paid: calls of earlier attempts whose cost is unknown count 0."""
        return total([self.cost.cost_usd, self.earlier.least_usd])

    @computed_field
    @property
    def forecast_usd(self) -> float | None:
        """Forecast of `cost.from_scratch_usd`; None if that of an evaluation is unknown. Free ones have none."""
        return total([entry.forecast_usd for entry in self.entries if entry.cost.from_scratch_usd != 0])

    @computed_field
    @property
    def colour(self) -> Colour:
        """The worst colour of its entries; green if at least one was compared, or none has to be."""
        colours = {entry.colour for entry in self.entries}
        order: tuple[Colour, ...] = ("Red", "Amber", "Green", "No baseline yet")
        return next((colour for colour in order if colour in colours), "Green")

    @computed_field
    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        clauses = [
            f"{len(names)} of {self._counted} {agreeing(verb, len(names))} {clause}: {', '.join(names)}"
            + (self._problems(verdict) if verdict in INCOMPLETE else "")
            for verdict, (verb, clause) in _CLAUSES.items()
            if (names := [entry.named for entry in self.entries if entry.verdict == verdict])
        ]
        if clauses:
            conclusion = f"{'; '.join(clauses)}{self._rest}."
        elif self.colour == "No baseline yet":
            conclusion = f"{self._counted}, none compared. The next nightly run is compared with this one."
        else:
            conclusion = f"{self._counted}, no significant loss{self._rest}."
        return f"{conclusion} {self._missed}".strip()

    def _problems(self, verdict: NightVerdict) -> str:
        """Say why entries have a verdict: the first line of each problem, once."""
        lines = dict.fromkeys(
            entry.problem.partition("\n")[0].rstrip(".") for entry in self.entries if entry.verdict == verdict
        )
        return f" ({shorten([visible(line[:MAX_PROBLEM]) for line in lines], MAX_PROBLEMS)})"

    @property
    def _missed(self) -> str:
        if not self.missed:
            return ""
        nights = counted(len(self.missed), "nightly run", "was")
        times = ", ".join(f"{start:%Y-%m-%d %H:%M}" for start in self.missed[-MAX_MISSED:])
        first = "the last of them " if len(self.missed) > MAX_MISSED else ""
        return f"{nights} missed since the one before: {first}{times} UTC."

    @property
    def _counted(self) -> str:
        return counted(len(self.entries), "evaluation")

    @property
    def _rest(self) -> str:
        """Count the entries without a verdict."""
        without = sum(entry.verdict == "no baseline" for entry in self.entries)
        unranked = sum(entry.verdict == "not ranked" for entry in self.entries)
        rest = f"; {without} {agreeing('has', without)} no baseline yet" if without else ""
        return rest + (f"; {unranked} {agreeing('is', unranked)} not ranked" if unranked else "")


def judge(gate: Gate, entries: Sequence[NightEntry]) -> tuple[NightEntry, ...]:
    """Judge every entry; p-values of comparisons and of trends are adjusted for the number of each (Holm)."""
    compared = holm_of_known([entry.p_value for entry in entries])
    trends = holm_of_known([entry.decline.p_value if entry.decline else None for entry in entries])
    adjusted = (
        replace(entry, adjusted_p=p_value, trend_p=trend_p)
        for entry, p_value, trend_p in zip(entries, compared, trends, strict=True)
    )
    return tuple(replace(entry, verdict=_verdict(entry, gate)) for entry in adjusted)


def _verdict(entry: NightEntry, gate: Gate) -> NightVerdict:
    # A regression on the answered questions comes before those without an answer.
    comparison, points = entry.comparison, 100 * entry.comparison.difference if entry.comparison else 0.0
    proven = entry.adjusted_p is not None and entry.adjusted_p < gate.level
    lost = points < 0 and -points >= gate.threshold
    if proven and lost:
        return "regression"
    if entry.problem:
        lost_too_many = entry.retryable > gate.tolerated_failures * entry.total
        return "too many unanswered" if lost_too_many else "infrastructure"
    if lost and entry.p_value is not None and entry.p_value < gate.doubt_level:
        return "possibly worse"
    declines = entry.decline is not None and -100 * entry.decline.change >= gate.threshold
    if declines and entry.trend_p is not None and entry.trend_p < gate.trend_level:
        return "declining"
    if entry.degraded >= gate.degraded_share:
        return "degraded"
    if proven and points > 0:
        return "better"
    if entry.not_ranked:
        return "not ranked"
    return "no worse" if comparison else "no baseline"


def file_of(home: Home, name: str) -> Path:
    """Return the file of a nightly run; characters that not every file system accepts are replaced."""
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
    return home.nights / f"{safe}.json"


def write(night: Night, home: Home) -> Path:
    """Write the file of a nightly run and return its path."""
    file = file_of(home, night.name)
    atomic_write_text(file, storable(json.dumps(json_of(night), ensure_ascii=False, indent=1)))
    return file


def read(file: Path) -> Night:
    """Read the file of a nightly run."""
    try:
        night: Night = adapter_of(Night).validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        why = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise DataError(
            f"The nightly run {file} cannot be read ({why}): it is damaged, or another "
            "release wrote it. Move it away to go on without it."
        ) from error
    return night


def all_nights(home: Home) -> tuple[Night, ...]:
    """Read all nightly runs, the latest first."""
    nights = [read(file) for file in home.nights.glob("*.json")]
    return tuple(sorted(nights, key=lambda night: (night.started, night.name), reverse=True))


def find_night(reference: str, nights: Sequence[Night]) -> Night:
    """Return the nightly run that a user refers to, of all in `nights`, the latest first.

    The reference is its name or the beginning of it, as it is or as its file has it; or "latest", "latest~1", ...
    """
    if not nights:
        raise DataError(f'There is no nightly run "{reference}": none has finished in this folder yet.')
    if latest := LATEST.fullmatch(reference):
        back = int(latest[1] or 0)
        if back >= len(nights):
            raise DataError(f'There is no nightly run "{reference}": there are {len(nights)} so far.')
        return nights[back]
    meant = [night for night in nights if reference in _names(night)] or [
        night for night in nights if reference and any(name.startswith(reference) for name in _names(night))
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        some = shorten([night.name for night in meant], MAX_LISTED)
        raise DataError(
            f'"{reference}" is the beginning of {len(meant)} nightly runs: {some}. Write more of it.'
        )
    raise DataError(
        f'There is no nightly run "{reference}". {did_you_mean(reference, [night.name for night in nights])}'
    )


def _names(night: Night) -> tuple[str, str]:
    return night.name, file_of(Home(Path()), night.name).stem
