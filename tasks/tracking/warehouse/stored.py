"""Runs as the warehouse has them: the header of a list of runs, and a run with its questions."""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.scoring.report import QuestionScore
from tasks.tracking.evaluation import FINISHED, EvaluationRun


@dataclass(frozen=True, slots=True)
class RunHeader:
    """One run in a list of runs; what is known only at its end is None before, times are UTC without zone.

    `rows_removed` is when `crosscheck clean` removed its questions; None: they are there. `asked` is equal for runs
    with the same questions of one file; it is the run's own id where that is unknown. `failures` is JSON: scored
    questions without an answer, by kind.
    """

    run_id: str
    benchmark: str
    backbone: str
    pipeline: str
    started: datetime.datetime
    status: str
    ex_correct: float | None
    ex_total: float | None
    rule: str = ""
    revision: str = ""
    questions: int | None = None
    scored: int | None = None
    seconds: float | None = None
    rows_removed: datetime.datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    mlflow_run_id: str | None = None
    asked: str = ""
    failures: str | None = None

    @property
    def unanswered(self) -> int:
        """Scored questions without an answer; 0 where unknown."""
        return sum(json.loads(self.failures or "{}").values())

    @property
    def finished(self) -> bool:
        """Whether it came to its end, with or without an answer to every question."""
        return self.status in FINISHED

    @property
    def combination(self) -> tuple[str, ...]:
        """Its benchmark, backbone, pipeline and questions."""
        return (self.benchmark, self.backbone, self.pipeline, self.revision, self.asked)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as the warehouse has it.

    Attributes:
        run: the evaluation.
        status: "running", or how it ended: "complete", "partial", or one of `Unfinished`.
        summary: the command line's JSON object; while it is not finished, what was noted of it, or {}.
        rows: the questions written so far, in benchmark order once finished.
    """

    run: EvaluationRun
    status: str
    summary: Mapping[str, Any]
    rows: tuple[QuestionScore, ...]
