"""Published or expected figures with the computed ones, the data they need, and scoring without Prefect and MLflow."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.scoring.scorer import Scorable, Scorer
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.recordings.file import Recording
from tasks.backbone.recordings.replay import RecordedBackbone
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.predictions.formats import read_predictions
from tasks.benchmarks.predictions.pairing import pair
from tasks.benchmarks.predictions.rsl_sql_release import FOLDER, Release, read_release, recorded_replies
from tasks.core.outcome import Outcome
from tasks.core.wording import DASH, UNKNOWN
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import rules_beside
from tasks.scoring.report import Report
from tasks.settings.assemble import EvaluationChoice, evaluation_settings
from tasks.settings.evaluation import EvaluationSettings

Value = float | int | None


@dataclass(frozen=True, slots=True)
class Figure:
    """Computed figure, and the one that it must agree with."""

    name: str  # what it is, with its denominator where it has one
    published: Value  # published value; None if none was published
    ours: Value  # computed value; None if it cannot be computed
    digits: int = 0  # decimal places that must agree
    # value on the data here, where it is not the published one; None: the published one is expected
    expected: Value = None

    @property
    def matches(self) -> bool:
        """Whether the computed value is the expected one, or else the published one, to the decimal places."""
        wanted = self.published if self.expected is None else self.expected
        if self.ours is None or wanted is None:
            return False
        return round(self.ours, self.digits) == round(wanted, self.digits)

    def shown(self, value: Value, *, missing: str = DASH) -> str:
        """Return a value with the decimal places that are compared."""
        return missing if value is None else f"{value:,.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Result of reproducing one source."""

    name: str  # as on the command line
    title: str  # what is reproduced, in a line
    figures: tuple[Figure, ...]  # figures in the order of the source
    remarks: tuple[str, ...] = ()  # explanations, in sentences

    @property
    def mismatches(self) -> tuple[Figure, ...]:
        """The figures that do not agree."""
        return tuple(figure for figure in self.figures if not figure.matches)

    def as_object(self) -> dict[str, object]:
        """Return it as plain JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "matches": not self.mismatches,
            "figures": [
                {
                    "name": figure.name,
                    "published": figure.published,
                    "expected": figure.expected,
                    "ours": None if figure.ours is None else round(figure.ours, figure.digits),
                    "matches": figure.matches,
                }
                for figure in self.figures
            ],
            "remarks": list(self.remarks),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of a plain-text table."""
        yield f"{self.name}: {self.title}"
        width = max((len(figure.name) for figure in self.figures), default=0)
        yield f"  {'':<{width}}  {'published':>10}  {'expected here':>13}  {'ours':>10}"
        for figure in self.figures:
            published, expected = figure.shown(figure.published), figure.shown(figure.expected)
            ours = figure.shown(figure.ours, missing=UNKNOWN)
            verdict = "match" if figure.matches else "MISMATCH"
            yield f"  {figure.name:<{width}}  {published:>10}  {expected:>13}  {ours:>10}  {verdict}"
        for remark in self.remarks:
            yield f"  · {remark}"
        count = len(self.figures) - len(self.mismatches)
        here = sum(figure.expected is not None for figure in self.figures)
        held = f"; {here} are compared with what is expected here" if here else ""
        yield f"  {count} of {len(self.figures)} figures match{held}"


@dataclass(frozen=True)
class Sources:
    """Benchmarks, pipelines and released outputs that figures are computed from."""

    folders: Folders  # where the benchmarks' files are
    progress: Progress  # display of the current step

    def settings(self, benchmark: str, pipeline: str, *overrides: str) -> EvaluationSettings:
        """Return the settings of a benchmark and a pipeline of these names."""
        choice = EvaluationChoice(
            benchmark=benchmark,
            backbone="replay",
            pipeline=pipeline,
            overrides=overrides,
            data=str(self.folders.data),
            home=str(self.folders.home.path),
        )
        return evaluation_settings(choice)

    def benchmark(self, settings: EvaluationSettings) -> Benchmark:
        """Load a benchmark. Raises DataError when its files are missing or malformed."""
        self.progress.step(f"Reading {settings.benchmark.name}")
        return self.folders.benchmark(settings.benchmark)

    def release(self) -> Release:
        """Read the RSL-SQL authors' released outputs. Raises DataError when they are missing or malformed."""
        return read_release(self.folders.data / FOLDER)

    def predictions(self, file: str, benchmark: Benchmark) -> Mapping[str, str | None]:
        """Return the SQL of a file of predictions in the data folder, by question id."""
        return pair(read_predictions(self.folders.data / file), benchmark).sqls


def replay(release: Release, benchmark: Benchmark) -> MeteredBackbone:
    """Return a backbone that replays GPT-4o's recorded replies."""
    replies = tuple(recorded_replies(release, benchmark.questions))
    return MeteredBackbone(RecordedBackbone(Recording(release.folder, "", replies)))


async def score(scorable: Scorable, outcomes: Mapping[str, Outcome], workers: SqlWorkers) -> Report:
    """Score one outcome for each selected question."""
    settings = scorable.benchmark.settings
    scorer = Scorer(scorable, Judge(workers, rules_beside(settings.rule), settings.timeout_s))
    for question in scorable.questions:
        await scorer.score(question, outcomes[question.id])
    return scorer.report()
