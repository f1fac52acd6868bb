"""A finished run as the papers' tables need it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.database.schema import Schema
from tasks.scoring.build_report import by_grade
from tasks.scoring.report import QuestionScore, Ratio, Verdict, is_right

TOTAL = "total"


@dataclass(frozen=True)
class PaperRun:
    """A finished run."""

    name: str  # how tables call it, e.g. "A".
    title: str  # backbone, pipeline, benchmark and id
    rule: str  # the headline rule
    rows: tuple[QuestionScore, ...] = field(repr=False)  # its scored questions
    settings: Mapping[str, Any] = field(repr=False)  # of benchmark, backbone and pipeline, as plain JSON
    # full schema by database; {} where the benchmark's files cannot be read
    schemas: Mapping[str, Schema] = field(repr=False, default_factory=dict)
    schemas_missing: str = ""  # why schemas are unknown; "" where they are known
    # the summary's object; None where it was not measured
    efficiency: Mapping[str, Any] | None = field(repr=False, default=None)
    label: str = ""  # backbone and pipeline, which a caption names
    # settings in which it differs from the first run of the tables, as `--set` takes them
    changes: tuple[str, ...] = ()

    @property
    def groups(self) -> dict[str, tuple[QuestionScore, ...]]:
        """The questions by difficulty, easiest first, and all of them under "total"."""
        graded = by_grade(self.rows, self.rule, self.schemas)
        return {**{grade: tuple(rows) for grade, rows in graded.items()}, TOTAL: self.rows}

    def setting(self, *keys: str) -> Any:
        """Return a setting by its keys; None where there is none."""
        found: Any = self.settings
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found

    def right(self, rows: tuple[QuestionScore, ...], stage: str | None = None) -> Ratio:
        """Return the share of right SQL after a stage, or of the final SQL; not reached is wrong."""

        def verdict(row: QuestionScore) -> Verdict | None:
            return row.final if stage is None else row.stages.get(stage)

        return Ratio(sum(is_right(verdict(row), self.rule) for row in rows), len(rows))


def grades_of(runs: tuple[PaperRun, ...]) -> list[str]:
    """Return the difficulties of all runs, easiest first, and "total"."""
    names = dict.fromkeys(grade for run in runs for grade in run.groups if grade != TOTAL)
    return [*names, TOTAL]
