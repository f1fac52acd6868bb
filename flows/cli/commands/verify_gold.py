"""`crosscheck benchmarks verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge

from flows.cli import options
from tasks.core.errors import ExitCode

if TYPE_CHECKING:
    from tasks.documents.model import Document

PAGE_ROWS = 5
"""Rows of each result on the page of an answer key."""


class VerifyGold(options.Benchmark, options.BenchmarkOverrides, options.Page, options.Files):
    """Run every gold query of a benchmark, and list those that fail, are slow or return nothing.

    If a gold query fails, every prediction of its question counts as wrong: put the question on the benchmark's
    quarantine list.

    Examples:
      crosscheck benchmarks verify --benchmark bird-dev --data ~/text2sql
      crosscheck benchmarks verify --benchmark spider-dev --split train
      crosscheck benchmarks verify --benchmark spider-dev --gold train_gold.sql --json
      crosscheck benchmarks verify --benchmark bird-dev --slow 1 --strict
      crosscheck benchmarks verify --benchmark bird-dev --key corrections.json
      crosscheck benchmarks verify --benchmark bird-mini-dev --key arcwise --html key.html
          a page with both SQLs and both results of every question that the key changes

    An answer key is the name of a benchmark whose golds it is, a file of id and SQL (JSON, JSON lines, CSV), or
    a file of corrections: an object with the key corrections, a list of objects with question_id, action (replace,
    add or withdraw), sql (a text or a list), reason and source. A run with
    --set benchmark.answer_keys=corrections.json has a score by this key beside the official one.

    Exit codes: 0 all queries were run; 1 with --strict: a gold query failed, was stopped, or returned too
    large a result; 2 bad input or configuration, and with --key anything that is wrong with the key;
    3 a database cannot be read; run the command again.
    """

    split: Literal["dev", "train"] = "dev"
    """dev: the evaluated questions; train: the training questions."""
    gold: Path | None = None
    """Run this file's queries on the benchmark's databases instead: a SQL, a tab and its database per line."""
    key: Annotated[str | None, options.Metavar("KEY")] = None
    """Check this answer key instead, a file or the name of a benchmark: run its SQL, and compare its results with
    those of the official golds."""
    slow: Annotated[float, options.Metavar("SECONDS"), Ge(0)] = 5.0
    """Queries that take longer are listed as slow."""
    no_undecided: bool = False
    """Do not look for golds whose result the data do not decide, for which most golds are executed several times."""
    strict: bool = False
    """Exit with 1 if a gold query fails, is stopped, or returns a result that is too large."""

    def __call__(self) -> int:
        if self.key is not None:
            return self._check_key(self.key)
        from flows.evaluate.gold_check import run_verify_gold
        from flows.pages.gold_check import VerifiedDocument, gold_document
        from tasks.settings.assemble import benchmark_settings

        with self.progress() as progress:
            verified = run_verify_gold(
                benchmark_settings(self.benchmark, self.overrides),
                self.folders,
                progress,
                split=self.split,
                file=self.gold,
                slow_s=self.slow,
                undecided=not self.no_undecided,
            )
        self._show(VerifiedDocument.model_validate(verified), gold_document(verified))
        if verified.report.unreadable:
            return ExitCode.TRY_AGAIN
        return ExitCode.NEGATIVE if self.strict and verified.report.faults else ExitCode.DONE

    def _check_key(self, item: str) -> int:
        from flows.evaluate.gold_check import check_key
        from flows.pages.key_check import KeyDocument, key_document
        from tasks.settings.assemble import benchmark_settings

        settings = benchmark_settings(self.benchmark, self.overrides)
        with self.progress() as progress:
            checked = check_key(settings, item, self.folders, progress, rows=PAGE_ROWS if self.html else 0)
        self._show(KeyDocument.model_validate(checked), key_document(checked))
        return ExitCode.BAD_INPUT if checked.problems else ExitCode.DONE

    def _show(self, value: Any, document: "Document") -> None:
        self.write_page(lambda: document)
        self.emit(value, document, text_too=True)
