"""The folders of a command: where it reads the benchmarks' files, and where it works."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.settings.home import Home, find_conf

if TYPE_CHECKING:
    from flows.runtime.control import Progress
    from tasks.benchmarks.benchmark import Benchmark
    from tasks.results.run_record import RunRecord
    from tasks.settings.benchmark import BenchmarkSettings
    from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of a command."""

    data: Path  # the benchmarks' files
    home: Home  # caches, stores and results

    @classmethod
    def of(cls, settings: "EvaluationSettings") -> "Folders":
        """Return the folders of an evaluation."""
        return cls(Path(settings.data), Home(Path(settings.home)))

    def benchmark(self, settings: "BenchmarkSettings", progress: "Progress | None" = None) -> "Benchmark":
        """Load a benchmark; what takes a while is shown on the display of progress."""
        from tasks.benchmarks.benchmark import load_benchmark

        step = progress.step if progress else None
        return load_benchmark(settings, data=self.data, home=self.home.path, conf=find_conf(), progress=step)

    def benchmark_of(self, run: "RunRecord", progress: "Progress | None" = None) -> "Benchmark":
        """Load the benchmark of a run as its evaluation had it."""
        from tasks.settings.assemble import stored_benchmark

        return self.benchmark(stored_benchmark(run.settings["benchmark"]), progress)
