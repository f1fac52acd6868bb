"""The comparison of an entry of a nightly run with its baseline, the scores of earlier runs, and its details."""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from tasks.core.errors import ConfigurationError, CrosscheckError, DataError
from tasks.core.wording import agreeing, counted, percent, shorten, storable
from tasks.database.database import Database, digests_of, product_of
from tasks.results.comparability import common_rule
from tasks.results.compare import compare
from tasks.results.comparison import Comparison, Flip
from tasks.results.night import Earlier, Night, NightEntry, Past
from tasks.results.noise import measured_noise
from tasks.results.run_record import (
    DATABASES_CHANGED,
    NIGHT,
    NOISE,
    ORACLE,
    REROLLED,
    RunHeader,
    RunRecord,
    adapter_of,
    json_of,
)
from tasks.results.warehouse.runs import Warehouse, find_run
from tasks.scoring.cost import total
from tasks.scoring.degradation import about_models
from tasks.scoring.scores import Accuracy, QuestionScore, Ratio
from tasks.scoring.significance import PairedTest, Trend, compare_runs, trend_of
from tasks.settings.choices import Gate
from tasks.settings.home import Home

if TYPE_CHECKING:
    from tasks.benchmarks.benchmark import Benchmark


@dataclass(frozen=True, slots=True)
class Pin:
    """One change of a baseline."""

    name: str  # of what is compared with it, "benchmark | backbone | pipeline"
    # the run that nightly runs are compared with from then on; None: again with the last that was not worse
    run_id: str | None
    reason: str  # why, in the user's words
    at: datetime.datetime  # when, in UTC
    by: str | None = None  # login name of the user; None where unknown

    @property
    def sentence(self) -> str:
        """Who pinned it, when and why."""
        by = f" by {self.by}" if self.by else ""
        return f"pinned on {self.at:%Y-%m-%d}{by}: {self.reason}"


def pins_file(home: Home) -> Path:
    """Return the file of a working folder's pinned baselines."""
    return home.nights / "baselines.jsonl"


def write_pin(pin: Pin, home: Home) -> None:
    """Add a change; it holds from the next nightly run on."""
    file = pins_file(home)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(storable(json.dumps(json_of(pin), ensure_ascii=False)) + "\n")


def pin_history(home: Home) -> tuple[Pin, ...]:
    """Read all changes of baselines by users, the oldest first."""
    file = pins_file(home)
    if not file.exists():
        return ()
    pins = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):  # `str.splitlines` splits at more signs
        try:
            pins.append(adapter_of(Pin).validate_json(line))
        except ValidationError as error:
            raise DataError(
                f"{file}, line {number}, is no pinned baseline: remove the line, then pin the baseline again with "
                '"crosscheck nights baseline RUN --reason TEXT".'
            ) from error
    return tuple(pins)


def current_pins(history: Iterable[Pin]) -> dict[str, Pin]:
    """Return the baselines that are pinned after all changes, by name."""
    latest = {pin.name: pin for pin in history}
    return {name: pin for name, pin in latest.items() if pin.run_id}


TREND = 100
"""How many scores a trend shows at most."""
MAX_DATABASES = 5


@dataclass(frozen=True, slots=True)
class Baselines:
    """What the evaluations of a nightly run may be compared with."""

    # runs that a user named or pinned, by the entry's name
    named: Mapping[str, RunRecord] = field(default_factory=dict)
    pins: Mapping[str, Pin] = field(default_factory=dict)  # those that were pinned
    # ids of runs that are no baseline by themselves, since an earlier nightly run found them worse
    worse: frozenset[str] = frozenset()


def worse_runs(nights: Iterable[Night], runs: Sequence[RunHeader]) -> frozenset[str]:
    """Return the runs whose answers nights found worse, their earlier attempts, and the runs merged from them.

    A night that is started again under its name has several runs of one combination; its file names only the newest.
    Runs are given newest first.
    """
    worse = {run_id for night in nights for run_id in night.worse}
    worse_in_night = set()  # night and combination
    for run in runs:
        key = (run.tags.get(NIGHT), run.combination)
        if NIGHT in run.tags and (run.run_id in worse or key in worse_in_night):
            worse_in_night.add(key)
            worse.add(run.run_id)
    for run in reversed(runs):
        if run.tags.get("parent_run_id") in worse:
            worse.add(run.run_id)
    return frozenset(worse)


def compared(
    entry: NightEntry, baselines: Baselines, warehouse: Warehouse, gate: Gate, *, new_replies: bool = False
) -> NightEntry:
    """Add the comparison with the baseline, the trend, and the problem of too many questions without an answer.

    With `new_replies`, the comparison is judged by the measured flip rate, if there is one; cached replies flip less.
    """
    if entry.run_id is None:
        return entry
    current = warehouse.read_run(entry.run_id)
    runs = warehouse.runs()
    models = about_models((row.outcome for row in current.rows), current.settings_of("pipeline"))
    entry = replace(entry, trend=_last_scores(current, runs), several_models=models)
    if not entry.problem:
        entry = replace(entry, problem=_too_many_failures(current, gate))
    if why := current.why_unranked:
        return replace(entry, not_ranked=why)
    pinned = baselines.named.get(entry.name)
    entry = replace(entry, decline=_decline(entry.trend, pinned, gate))
    baseline = pinned or find_baseline(current, runs, warehouse, baselines.worse, gate)
    if baseline is None:
        names = (current.benchmark, current.backbone, current.pipeline)
        earlier = _latest(names, current.tags.get(NIGHT, ""), runs)
        has_changed = earlier is not None and earlier.combination != current.combination
        return replace(entry, questions_changed=has_changed)
    pin = baselines.pins.get(entry.name)
    entry = replace(entry, baseline=baseline.run_id, pinned=pin.sentence if pin else "")
    if new_replies:
        entry = replace(entry, noise=measured_noise(current, runs, warehouse, gate.level))
    try:
        return replace(entry, comparison=compare_with(baseline, current, gate.level))
    except CrosscheckError as error:
        return replace(entry, problem=f"{entry.problem}\n{error}".strip())


def check_data(
    names: tuple[str, str, str],
    night: str,
    baselines: Baselines,
    warehouse: Warehouse,
    benchmark: "Benchmark",
    selected: Iterable[str],
    databases: Mapping[str, Database],
) -> None:
    """Refuse, before anything is paid, data that have changed since the baseline was evaluated.

    The baseline is the named run, else the latest complete one of other nightly runs with these names (benchmark,
    backbone, pipeline). A named run has to be of the same question file, revision and rule, and of one of the
    `selected` questions, by id, at least; others are none without that. Databases are not checked without a baseline,
    or where it was evaluated with another database product or version. A database that the baseline did not use is not
    checked.
    """
    named = baselines.named.get(" | ".join(names))
    if named:
        _check_questions(named, benchmark, selected)
    baseline = named
    if named is None and (latest := _latest(names, night, warehouse.runs())):
        baseline = warehouse.record_of(latest.run_id)
    if baseline is None or baseline.engine != product_of(databases):
        return
    old = baseline.databases
    changed = [name for name, digest in digests_of(databases).items() if old.get(name, digest) != digest]
    if changed:
        raise DataError(
            f"{counted(len(changed), 'database')} changed since the baseline {baseline.run_id} was evaluated: "
            f"{shorten(changed, MAX_DATABASES)}.\n"
            "Nothing was sent to the model: the scores would differ because the data differ. Restore the databases, or "
            'evaluate the new ones and make that run the baseline: "crosscheck nights baseline RUN --reason TEXT".'
        )


def _check_questions(named: RunRecord, benchmark: "Benchmark", selected: Iterable[str]) -> None:
    settings = benchmark.settings
    facts = (
        ("benchmark", named.benchmark, settings.name),
        ("revision", named.revision, str(settings.revision)),
        ("rule", named.rule, settings.rule),
    )
    changes = [f"the {fact} was {before} and is {now}" for fact, before, now in facts if before != now]
    problem = f"The baseline {named.run_id} cannot be compared: {'; '.join(changes)}." if changes else ""
    if named.question_sha256 != benchmark.digest:
        problem = f"The question file changed since the baseline {named.run_id} was evaluated."
    elif not changes and named.answered_rights(named.rule).keys().isdisjoint(selected):
        problem = f"The baseline {named.run_id} answered none of the selected questions."
    if problem:
        raise DataError(
            f"{problem}\n"
            "Nothing was sent to the model: the scores would differ because the questions differ. Evaluate the same "
            "questions as the baseline, or evaluate the new ones and make that run the baseline: "
            '"crosscheck nights baseline RUN --reason TEXT".'
        )


def _latest(names: tuple[str, str, str], night: str, runs: Iterable[RunHeader]) -> RunHeader | None:
    """Return the latest complete run of other nightly runs with these names; runs are given newest first."""
    for run in runs:
        of_these = (run.benchmark, run.backbone, run.pipeline) == names and run.status == "complete"
        if of_these and run.tags.get(NIGHT, night) != night and not run.rows_removed:
            return run
    return None


def find_baseline(
    current: RunHeader, runs: Sequence[RunHeader], warehouse: Warehouse, worse: frozenset[str], gate: Gate
) -> RunRecord | None:
    """Return the latest complete run before this one of the same questions that was not worse; None without one.

    The same benchmark (name, revision, question file, selected questions, rule), backbone and pipeline, by their names:
    differences in anything else are what a nightly run is to detect. Runs that must not be ranked are no baseline.
    Neither are those in `worse`: if each bad night became the next one's baseline, no drift would be seen; nor those
    with more unanswered questions than the gate tolerates: a loss on these would not be seen. Runs are given newest
    first.
    """
    for run in _earlier_runs(current, runs):
        if run.rows_removed or run.run_id in worse:
            continue
        stored = warehouse.read_run(run.run_id)
        if not stored.why_unranked and not _too_many_failures(stored, gate):
            return stored
    return None


def paid_before(night: str, entries: Sequence[NightEntry], warehouse: Warehouse) -> Earlier:
    """Return what other runs under the name of a nightly run paid; the cost of a killed one is only known in part."""
    own_ids = {entry.run_id for entry in entries}
    earlier = [run for run in warehouse.runs() if run.tags.get(NIGHT) == night and run.run_id not in own_ids]
    records = [warehouse.record_of(run.run_id) for run in earlier]
    paid = [record.cost.cost_usd if record and record.is_finished else None for record in records]
    least_usd = 0.0
    for run, usd in zip(earlier, paid, strict=True):
        least_usd += warehouse.least_paid(run.run_id) if usd is None else usd
    return Earlier(usd=total(paid), least_usd=least_usd)


def named_run(reference: str, warehouse: Warehouse) -> RunRecord:
    """Return the run that a user named as a baseline."""
    run = find_run(reference, warehouse.runs())
    if not run.is_finished:
        raise DataError(f'The baseline "{reference}" is {run.status}: name a run that was finished.')
    stored = warehouse.read_run(run.run_id)
    if why := stored.why_unranked:
        raise DataError(
            f'The baseline "{reference}" {why}, so nothing can be worse or better than it: name a run that sent '
            "every question once and saw no gold."
        )
    return stored


def compare_with(baseline: RunRecord, current: RunRecord, level: float) -> PairedTest:
    """Compare a run (B) with its baseline (A) on the questions that both have answered.

    A question without an answer because of the endpoint stays in the denominator of the score, but not in this
    comparison: a network failure is no regression of the model.
    """
    rule = common_rule(baseline, current, chosen=None)
    a, b = baseline.answered_rights(rule), current.answered_rights(rule)
    if not a.keys() & b.keys():
        raise ConfigurationError(
            f"{baseline.run_id} and {current.run_id} share no question that both have answered."
        )
    return compare_runs(a, b, confidence=1 - level)


def _too_many_failures(stored: RunRecord, gate: Gate) -> str:
    """Say that a run has more unanswered questions than are tolerated; "" where it has not."""
    failed = Ratio(stored.retryable or 0, stored.scored or 0)
    if (failed.value or 0) <= gate.tolerated_failures:
        return ""
    return (
        f"{failed.correct:,} of {counted(failed.total, 'question')} {agreeing('has', failed.correct)} no answer, "
        f"{percent(failed, 1)}: more than the {100 * gate.tolerated_failures:g} % that is tolerated."
    )


def _earlier_runs(current: RunHeader, runs: Sequence[RunHeader]) -> list[RunHeader]:
    """Return the complete runs before it of its questions and rule, newest first; if any are of nights, only these.

    A nightly run that was killed and continued has several runs of one combination, of which none is earlier than the
    others: the tag `NIGHT`, the name of the night, is the same. Repeats that measure noise are not among them.
    """
    night = current.tags.get(NIGHT)
    earlier = [
        run
        for run in runs
        if run.run_id != current.run_id
        and (*run.combination, run.rule) == (*current.combination, current.rule)
        and run.status == "complete"
        and run.started <= current.started
        and NOISE not in run.tags
        and (night is None or run.tags.get(NIGHT) != night)
    ]
    return [run for run in earlier if NIGHT in run.tags] or earlier


def _decline(trend: Sequence[Past], baseline: RunRecord | None, gate: Gate) -> Trend | None:
    """Test the last scores for a trend: those since the named baseline, which may have been lower for a reason."""
    since = baseline.started if baseline else datetime.datetime.min.replace(tzinfo=datetime.UTC)
    scores = [past.ex.ex or 0.0 for past in trend if past.started >= since.replace(microsecond=0)]
    return trend_of(scores[-gate.trend_nights :])


def _last_scores(current: RunHeader, runs: Sequence[RunHeader]) -> tuple[Past, ...]:
    """Return the last scores of a combination, one of each nightly run; a re-run replaces its parent."""
    rerun = {run.tags.get("parent_run_id") for run in runs}
    newest_by_night: dict[str, RunHeader] = {}
    for run in _earlier_runs(current, runs):
        unfair = {REROLLED, ORACLE, DATABASES_CHANGED} & run.tags.keys()
        if run.run_id not in rerun and not unfair:
            newest_by_night.setdefault(run.tags.get(NIGHT, run.run_id), run)
    newest_first = [current, *newest_by_night.values()]
    return tuple(
        Past(run.run_id, run.started.replace(microsecond=0), Accuracy(run.correct, run.total))
        for run in reversed(newest_first[:TREND])
        if run.correct is not None and run.total
    )


@dataclass(frozen=True, slots=True)
class Detail:
    """Details of one entry."""

    entry: NightEntry  # the evaluation
    missing: str = ""  # why there are no details, "" when there are
    # with the baseline, over all scored questions; None where there is none
    comparison: Comparison | None = None
    # broken, fixed: questions that the two runs answer differently, both having answered
    broken: tuple[Flip, ...] = ()
    fixed: tuple[Flip, ...] = ()
    baseline: RunRecord | None = None  # without its questions; None where there is none
    retryable: tuple[QuestionScore, ...] = ()  # questions without an answer after a retryable failure


def details(entries: Iterable[NightEntry], warehouse: Warehouse) -> Iterator[Detail]:
    """Yield the details of each entry, in their order; one pair of runs is read at a time."""
    for entry in entries:
        try:
            yield _detail(entry, warehouse)
        except CrosscheckError as error:  # its runs may have been removed from the warehouse since
            yield Detail(entry, missing=str(error))


def _detail(entry: NightEntry, warehouse: Warehouse) -> Detail:
    if entry.run_id is None:
        return Detail(entry)
    current = warehouse.read_run(entry.run_id)
    baseline = warehouse.read_run(entry.baseline) if entry.baseline else None
    tested = entry.comparison
    comparison = compare(baseline, current, confidence=tested.confidence) if baseline and tested else None
    flips = {flip.question_id: flip for flip in comparison.flips} if comparison else {}
    return Detail(
        entry,
        comparison=comparison,
        broken=_flips_of(tested.broken if tested else (), flips),
        fixed=_flips_of(tested.fixed if tested else (), flips),
        baseline=baseline.model_copy(update={"rows": ()}) if baseline else None,
        retryable=tuple(row for row in current.scored_rows.values() if row.outcome.retryable),
    )


def _flips_of(ids: Sequence[str], flips: Mapping[str, Flip]) -> tuple[Flip, ...]:
    return tuple(flips[id_] for id_ in ids if id_ in flips)
