"""Records of a nightly run: its evaluations, each with score, comparison, trend and verdict, and whether it failed."""

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, computed_field

from tasks.core.errors import DataError, did_you_mean, first_problem
from tasks.core.files import atomic_write_text
from tasks.core.wording import agreeing, counted, points, shorten, storable
from tasks.database.sqlite_files import log as damage_log
from tasks.documents.text import visible
from tasks.results.noise import MeasuredNoise
from tasks.results.run_record import RunRecord, adapter_of, json_of
from tasks.results.warehouse.runs import LATEST, MAX_LISTED
from tasks.results.warehouse.views import MONEY
from tasks.scoring.cost import Cost, total
from tasks.scoring.scores import Accuracy, Score
from tasks.scoring.significance import PairedTest, Trend, holm_of_known
from tasks.settings.choices import Gate, Keep
from tasks.settings.home import Home

NightVerdict = Literal[
    "regression",
    "infrastructure",
    "too many unanswered",
    "possibly worse",
    "declining",
    "degraded",
    "better",
    "no worse",
    "no baseline",
    "not ranked",
]
Colour = Literal["Red", "Amber", "Green", "No baseline yet"]
"""Result of an evaluation or of a nightly run; "No baseline yet": nothing was compared."""
INCOMPLETE: tuple[NightVerdict, ...] = ("infrastructure", "too many unanswered")
"""Verdicts on evaluations of which something is left to ask."""
RED: tuple[NightVerdict, ...] = ("regression", *INCOMPLETE)
WORSE: tuple[NightVerdict, ...] = ("regression", "possibly worse", "declining")
"""Verdicts on the answers: a run with one of them becomes no baseline by itself."""
AMBER: tuple[NightVerdict, ...] = ("possibly worse", "declining", "degraded")


@dataclass(frozen=True, slots=True)
class Past:
    """The score of one run of the same combination; `started` is in UTC."""

    run_id: str
    started: datetime.datetime
    ex: Accuracy


@dataclass(frozen=True, slots=True)
class NightEntry:
    """One evaluation of a nightly run."""

    benchmark: str
    backbone: str
    pipeline: str
    run: RunRecord | None  # its record, as JSON has it; None where the evaluation did not start
    problem: str = ""  # why it is incomplete or cannot be compared, "" where it is complete
    # command that evaluates again, or sends the unanswered questions again; "" where all are answered
    continue_with: str = ""
    several_models: str = ""  # that several models replied, as a sentence; "" where one did
    not_ranked: str = ""  # why it must not be ranked, as a clause without its subject; "" where it may
    baseline: str | None = None  # the run it is compared with; None where there is none
    questions_changed: bool = False  # whether it has no baseline because earlier ones had other questions
    pinned: str = ""  # who pinned the baseline, when and why; "" where it is the last run that was not worse
    comparison: PairedTest | None = None  # with the baseline as A; None without a baseline
    noise: MeasuredNoise | None = None  # the flip rate by which the comparison is judged; None: not measured
    trend: tuple[Past, ...] = ()  # scores of the same combination, the oldest first, this one last
    decline: Trend | None = None  # the test of the last scores for a trend; None of too few
    # whether it is worse or better than its baseline, or why that is unknown; None before it is judged
    verdict: NightVerdict | None = None
    # of the comparison, adjusted for the number of comparisons of the nightly run; None without one
    adjusted_p: float | None = None
    # of the trend, adjusted for the number of trends that were tested; None of too few scores
    trend_p: float | None = None

    @classmethod
    def of_run(cls, run: RunRecord) -> "NightEntry":
        """Return the entry of a run, before it is compared."""
        return cls(
            run.benchmark,
            run.backbone,
            run.pipeline,
            run=RunRecord.model_validate(run.model_dump()),  # as it is read from JSON
            problem=run.fatal,
            continue_with=f"crosscheck rerun {run.run_id}" if run.retryable else "",
        )

    @property
    def run_id(self) -> str | None:
        """Id of its run; None where the evaluation did not start."""
        return self.run.run_id if self.run else None

    @property
    def ex(self) -> Accuracy | None:
        """Its execution accuracy; None without a run."""
        return self.run.accuracy if self.run else None

    @property
    def variants(self) -> Mapping[str, Score]:
        """Its scores by score variants, by name. The gate does not see them."""
        return self.run.variants if self.run else {}

    @property
    def cost(self) -> Cost:
        """Calls, money and seconds per paid call; unknown where the evaluation did not start."""
        return self.run.cost if self.run else Cost()

    @property
    def forecast_usd(self) -> float | None:
        """Its forecast from scratch; None if unknown."""
        return self.run.forecast.cost_usd if self.run and self.run.forecast else None

    @property
    def retryable(self) -> int:
        """Questions without an answer after a retryable failure."""
        return (self.run and self.run.retryable) or 0

    @property
    def degradation(self) -> tuple[str, ...]:
        """Which stages fell back, and whether several models replied, in sentences."""
        stages = self.run.degradation.sentences if self.run else ()
        return (*stages, self.several_models) if self.several_models else tuple(stages)

    @property
    def name(self) -> str:
        """Name in messages, and of the baseline in the parameters."""
        return f"{self.benchmark} | {self.backbone} | {self.pipeline}"

    @property
    def model_and_pipeline(self) -> str:
        """What distinguishes evaluations of one benchmark."""
        return f"{self.pipeline} with {self.backbone}"

    @computed_field
    @property
    def p_value(self) -> float | None:
        """The p-value that the gate uses: by the measured flip rate if it decides, else of the exact McNemar test."""
        comparison = self.comparison
        if comparison is None or self.noise is None or not self.noise.decides:
            return comparison.p_value if comparison else None
        return self.noise.p_value(len(comparison.fixed), len(comparison.broken))

    @property
    def before(self) -> Accuracy | None:
        """The baseline's right answers, of the questions that are compared; None without a comparison."""
        comparison = self.comparison
        return Accuracy(comparison.right_a, comparison.questions) if comparison else None

    @computed_field
    @property
    def colour(self) -> Colour:
        """Red where the nightly run fails for it."""
        if self.verdict == "no baseline":
            return "No baseline yet"
        if self.verdict in RED:
            return "Red"
        return "Amber" if self.verdict in AMBER else "Green"

    @property
    def total(self) -> int:
        """Number of its questions; 0 without a run."""
        return self.ex.total if self.ex else 0

    @property
    def verdict_in_words(self) -> str:
        """The verdict; of an incomplete evaluation, what it lacks."""
        if self.verdict == "too many unanswered":
            return f"{self.verdict}: {self.retryable:,} of {self.total:,}"
        if self.verdict == "infrastructure":
            return "not completed" if self.run_id else "not evaluated"
        return self.verdict or ""

    @property
    def named(self) -> str:
        """Name of the evaluation, with the points that it lost or won against its baseline."""
        comparison = self.comparison
        return f"{self.name} ({points(comparison.difference)} points)" if comparison else self.name


BRIEF_FIELDS = {
    "name", "colour", "verdict", "started", "finished", "missed", "expected", "paid_usd", "paid_least_usd"
}  # fmt: skip
MAX_MISSED = 7
MAX_NAME = 50
"""Characters of a night's name that the name of its file has at most; one may be four bytes."""
MAX_PROBLEMS = 2
MAX_PROBLEM = 200
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
    """What other runs under a night's name paid, in US dollars: of earlier attempts, and those without a score."""

    usd: float | None = 0.0  # None if that is unknown: one of them was killed, or failed
    least_usd: float = 0.0  # the cost of the calls that are known


@dataclass(frozen=True, slots=True)
class Night:
    """A nightly run and its verdicts."""

    name: str
    gate: Gate  # when it fails
    entries: tuple[NightEntry, ...]  # in the order of the matrix
    started: datetime.datetime  # in UTC
    finished: datetime.datetime  # in UTC
    # what was evaluated, as the parameters of the flow
    matrix: Mapping[str, Any] = field(default_factory=dict)
    new_replies: bool = False  # whether new replies were requested although there were cached ones
    keep: Keep | None = None  # what of old runs the cleaning afterwards kept; None: nothing was cleaned
    cleaned: str = ""  # what the cleaning did, in sentences
    finish_by: str | None = None  # when it was to have ended, as the parameter says; None without a limit
    budget_usd: float | None = None  # limit on its cost in US dollars; None without a limit
    earlier: Earlier = Earlier()  # what other runs under its name paid
    # when the schedule had nightly runs since the last one that left nothing here, in UTC
    missed: tuple[datetime.datetime, ...] = ()
    expected: datetime.datetime | None = None  # when the schedule has the next one, in UTC; None without one

    @property
    def worst_first(self) -> tuple[tuple[int, NightEntry], ...]:
        """Entries with their places in the matrix, from 1, the worst colour first."""
        numbered = enumerate(self.entries, 1)
        return tuple(sorted(numbered, key=lambda pair: _WORST_FIRST.index(pair[1].colour)))

    @property
    def worse(self) -> frozenset[str]:
        """Ids of the runs whose answers were found worse, those of incomplete runs included.

        The score of an incomplete run counts unanswered questions as wrong, so its trend does not decide.
        """
        worse = set()
        for entry in self.entries:
            # the verdict on the answers alone: `_verdict` returns a problem first
            judged = replace(entry, problem="", decline=None) if entry.problem else entry
            if entry.run_id and _verdict(judged, self.gate) in WORSE:
                worse.add(entry.run_id)
        return frozenset(worse)

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
        """What it and other runs under its name paid, in US dollars; None if that of an evaluation is unknown."""
        return total([self.cost.cost_usd, self.earlier.usd])

    @computed_field
    @property
    def paid_least_usd(self) -> float | None:
        """The least that it and other runs under its name paid: calls whose cost is unknown count 0."""
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
        clauses = []
        for kind, (verb, clause) in _CLAUSES.items():
            if names := [entry.named for entry in self.entries if entry.verdict == kind]:
                subject = f"{len(names)} of {self._counted} {agreeing(verb, len(names))}"
                reasons = self._problems(kind) if kind in INCOMPLETE else ""
                clauses.append(f"{subject} {clause}: {', '.join(names)}{reasons}")
        if clauses:
            conclusion = f"{'; '.join(clauses)}{self._not_judged}."
        elif self.colour == "No baseline yet":
            conclusion = (
                f"{self._counted}, none compared{self._why}. The next nightly run is compared with this one."
            )
        else:
            conclusion = f"{self._counted}, no significant loss{self._not_judged}."
        return visible(f"{conclusion} {self._missed_nights}".strip())

    def _problems(self, verdict: NightVerdict) -> str:
        """Say why entries have a verdict: the first line of each problem, once."""
        lines = dict.fromkeys(
            entry.problem.partition("\n")[0].rstrip(".") for entry in self.entries if entry.verdict == verdict
        )
        return f" ({shorten([line[:MAX_PROBLEM] for line in lines], MAX_PROBLEMS)})"

    @property
    def _missed_nights(self) -> str:
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
    def _why(self) -> str:
        has_changed = any(entry.questions_changed for entry in self.entries)
        return " (the questions changed since an earlier nightly run)" if has_changed else ""

    @property
    def _not_judged(self) -> str:
        without = sum(entry.verdict == "no baseline" for entry in self.entries)
        unranked = sum(entry.verdict == "not ranked" for entry in self.entries)
        rest = f"; {without} {agreeing('has', without)} no baseline yet{self._why}" if without else ""
        rest += f"; {unranked} {agreeing('is', unranked)} not ranked" if unranked else ""
        partly = [
            f"{entry.name} ({entry.comparison.questions:,} of {entry.total:,})"
            for entry in self.entries
            if entry.comparison and entry.comparison.questions < entry.total
        ]
        return rest + (f"; compared on a part of the questions: {', '.join(partly)}" if partly else "")


def judge(gate: Gate, entries: Sequence[NightEntry]) -> tuple[NightEntry, ...]:
    """Judge every entry; p-values are adjusted for the number of comparisons, or for the number of trends (Holm)."""
    compared = holm_of_known([entry.p_value for entry in entries])
    trends = holm_of_known([entry.decline.p_value if entry.decline else None for entry in entries])
    adjusted = (
        replace(entry, adjusted_p=p_value, trend_p=trend_p)
        for entry, p_value, trend_p in zip(entries, compared, trends, strict=True)
    )
    return tuple(replace(entry, verdict=_verdict(entry, gate)) for entry in adjusted)


def _verdict(entry: NightEntry, gate: Gate) -> NightVerdict:
    """Return the first verdict that applies, from the worst to the best."""
    difference = 100 * entry.comparison.difference if entry.comparison else 0.0  # in points
    is_proven = entry.adjusted_p is not None and entry.adjusted_p < gate.level
    is_loss = difference < 0 and -difference >= gate.threshold
    # A regression on the answered questions comes before those without an answer.
    if is_loss and is_proven:
        return "regression"
    if entry.retryable > gate.tolerated_failures * entry.total and entry.problem:
        return "too many unanswered"
    if entry.problem:
        return "infrastructure"
    if is_loss and entry.p_value is not None and entry.p_value < gate.doubt_level:
        return "possibly worse"
    is_decline = entry.decline is not None and -100 * entry.decline.change >= gate.threshold
    if is_decline and entry.trend_p is not None and entry.trend_p < gate.trend_level:
        return "declining"
    degraded = entry.run.degradation.share if entry.run else None
    if (degraded or 0.0) >= gate.degraded_share:
        return "degraded"
    if is_proven and difference > 0:
        return "better"
    if entry.not_ranked:
        return "not ranked"
    return "no worse" if entry.comparison else "no baseline"


def file_of(home: Home, name: str) -> Path:
    """Return the file of a nightly run; characters that not every file system accepts are replaced.

    If that could be the file of another name as well, or the name is long, a part of the name's sha256 is added.
    """
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[:MAX_NAME]
    if safe != name.replace(":", "-"):
        safe = f"{safe}-{hashlib.sha256(storable(name).encode()).hexdigest()[:8]}"
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
        raise DataError(
            f"The nightly run {file} cannot be read ({first_problem(error)}): it is damaged, or another release wrote "
            "it. Move it away or restore it. Until then it is left out, so a run that it found worse may become the "
            "baseline."
        ) from error
    return night


def all_nights(home: Home) -> tuple[Night, ...]:
    """Read all nightly runs, the latest first; say which cannot be read."""
    nights = []
    for file in home.nights.glob("*.json"):
        try:
            nights.append(read(file))
        except DataError as error:
            damage_log.warning("%s", error)
    return tuple(sorted(nights, key=lambda night: (night.started, night.name), reverse=True))


def find_night(reference: str, nights: Sequence[Night]) -> Night:
    """Return the nightly run that a user refers to, of all in `nights`, which are given the latest first.

    The reference is its name, the name of its file without the suffix, the beginning of either, or "latest",
    "latest~1", ...
    """
    if not nights:
        raise DataError(f'There is no nightly run "{reference}": none has finished in this folder yet.')
    if latest := LATEST.fullmatch(reference):
        back = int(latest[1] or 0)
        if back >= len(nights):
            raise DataError(f'There is no nightly run "{reference}": there are {len(nights)} so far.')
        return nights[back]
    meant = [night for night in nights if reference in _names(night)]
    if not meant and reference:
        meant = [night for night in nights if any(name.startswith(reference) for name in _names(night))]
    if len(meant) == 1:
        return meant[0]
    if meant:
        listed = shorten([night.name for night in meant], MAX_LISTED)
        raise DataError(
            f'"{reference}" is the beginning of {len(meant)} nightly runs: {listed}. Write more of it.'
        )
    raise DataError(
        f'There is no nightly run "{reference}". {did_you_mean(reference, [night.name for night in nights])}'
    )


def _names(night: Night) -> tuple[str, str]:
    return night.name, file_of(Home(Path()), night.name).stem
