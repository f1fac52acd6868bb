"""`crosscheck compare`."""

from typing import Annotated, Literal

from annotated_types import Gt, Lt

from flows.cli import options
from tasks.core.errors import ExitCode

SHOWN = 10


class Compare(options.Page):
    """Test whether the second run is better than the first, and list the questions on which they differ.

    The runs are paired by question. Shows an exact McNemar test, a bootstrap interval of the difference, and the
    questions that only one of the runs answered correctly. If the difference is not significant, no run is better.

    RUN is one run. Several runs of one system, separated by commas, are compared by how often each question is right
    (an exact sign-flip test over questions). RUN:repeats stands for the repeats that `--repeats` made of a run.

    Examples:
      crosscheck compare latest~1 latest
          compares the last finished run with the one before it
      crosscheck compare 20261121-020000-3f9a1c 20261122 --html comparison.html
          by run id or its first characters, or by the run's id in MLflow
      crosscheck compare latest~1 latest --rule strict --all
      crosscheck compare 20261121-020000-3f9a1c latest --fail-if worse --margin 2
          for a release: fails unless it is proven that the last run is not worse by 2 points or more
      crosscheck compare 20261121-020000-3f9a1c:repeats latest~2,latest~1,latest

    Exit codes: 0 compared, and with --fail-if: no loss is proven, also where too few answers differ to prove one;
    1 the condition of --fail-if holds; 2 bad input, runs that cannot be compared, or with --fail-if: the same run
    twice, a run that is not complete or may not be ranked, or a loss that depends on failures that may pass.
    """

    run_a: Annotated[str, options.Argument("RUN")]
    run_b: Annotated[str, options.Argument("RUN")]
    rule: Annotated[str | None, options.Metavar("NAME")] = None
    """Comparison rule: bird, spider, strict or subset. [default: the runs' headline rule]"""
    fail_if: Literal["worse"] | None = None
    """Exit with code 1 if the second run is worse: if the test proves it, or, with --margin, unless the test proves
    that it is not worse by the margin or more."""
    margin: Annotated[float | None, options.Metavar("POINTS"), Gt(0), Lt(100)] = None
    """Also test whether the second run is not worse by this many percentage points or more (non-inferiority)."""
    everything: Annotated[bool, options.More("--all")] = False
    """List every question whose verdict differs, not only the first 10."""

    def __call__(self) -> int:
        from tasks.pages.comparison import comparison_document
        from tasks.results.compare import compare
        from tasks.results.comparison import gated
        from tasks.results.noise import read_side

        a, b = (read_side(names, self.warehouse) for names in (self.run_a, self.run_b))
        margin = None if self.margin is None else self.margin / 100
        comparison = compare(a, b, rule=self.rule, margin=margin)
        if self.fail_if:
            comparison = gated(comparison)
        document = comparison_document(comparison, None if self.everything else SHOWN)
        self.write_page(lambda: document)
        self.emit(comparison, document)
        return ExitCode.NEGATIVE if comparison.gate and comparison.gate.failed else ExitCode.DONE
