"""Settings of `crosscheck score`."""

from dataclasses import dataclass
from pathlib import Path

from flows.runtime.folders import Folders
from tasks.benchmarks.predictions.columns import Reading
from tasks.core.errors import ConfigurationError, did_you_mean
from tasks.scoring.execution.rules import RULES, rules_beside
from tasks.settings.benchmark import BenchmarkSettings


@dataclass(frozen=True)
class ScoreSettings:
    """Settings of scoring a file of predictions."""

    benchmark: BenchmarkSettings  # settings of the benchmark
    predictions: Path  # file of the predictions, or of the trajectories
    reading: Reading  # how it is read where its content leaves it open
    name: str  # name of the system, shown as the backbone in MLflow
    # the rules to judge by; the benchmark's own is the headline if it is among them, else the first
    rules: tuple[str, ...]
    # questions, limit: which questions, as in an evaluation
    questions: str | None
    limit: int | None
    linking: Path | None  # file of schema links, or None
    trials: int  # repeated measurements of efficiency; 0: it is not measured
    trajectories: bool  # whether it is a file of trajectories
    folders: Folders  # where the benchmarks' files are, and the working folder

    @property
    def headline(self) -> str:
        """The rule of the headline score."""
        return self.benchmark.rule if self.benchmark.rule in self.rules else self.rules[0]


def read_rules(text: str | None, headline: str) -> tuple[str, ...]:
    """Read `--rules`: names separated by commas.

    Args:
        text: the option; None: the default rules and the benchmark's own.
        headline: the benchmark's own rule.

    Raises:
        ConfigurationError: an unknown name.
    """
    if text is None:
        return rules_beside(headline)
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in RULES]
    if wrong or not names:
        name = wrong[0] if wrong else ""
        raise ConfigurationError(f'--rules: there is no rule "{name}". {did_you_mean(name, RULES)}')
    return tuple(dict.fromkeys(names))
