"""The user's file of nightly runs: schedule, matrix and limits."""

import re
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from pydantic import Field, field_validator

from flows.evaluate.forms import OWN_FILE, Matrix
from tasks.core.errors import ConfigurationError
from tasks.core.wording import TIME_OF_DAY
from tasks.results.run_record import KINDS
from tasks.settings.base import Settings
from tasks.settings.choices import Gate, Keep
from tasks.settings.load import located_name, located_override, read_settings

TEMPLATE = """\
# Nightly runs of Crosscheck. After a change: crosscheck nights deploy
schedule: "30 1 * * *"       # as cron: minute, hour, day, month, weekday
timezone: UTC

# Every combination is evaluated and compared with its baseline. Paths are relative to this file.
matrix:
  benchmarks: [demo]         # names of `crosscheck list benchmarks`, or files: ./my-benchmark.yaml
  backbones: [offline]       # names of `crosscheck list backbones`, or files
  pipelines: [few-shot, rsl-sql]
  # limit: 200               # only the first questions
  # overrides: [pipeline.demonstrations.k=5]

# true: request new, paid replies each night, which detects a hosted model that has changed.
ask_again: false
# budget_usd: 50             # limit on the cost of a night
# finish_by: "07:00"         # in this time zone; for backbones of the tier flex or batch

# When a night is red or amber: deployments/README.md has the verdicts and further settings.
gate:
  threshold: 1.0             # percentage points

# What old runs have left is removed afterwards; scores and paid replies stay.
keep:
  age: 30d
"""


class NightsFile(Settings):
    """Nightly runs as a user describes them."""

    schedule: str
    """When they start, as cron."""
    timezone: str = "UTC"
    """Time zone of the schedule, for example Europe/Berlin."""
    matrix: Matrix
    """Evaluations to run."""
    gate: Gate = Gate()
    """When a night is red or amber."""
    ask_again: bool = False
    """Whether each night requests new, paid replies."""
    finish_by: str | None = None
    """Time of day by which a night must end, in the time zone of the schedule."""
    budget_usd: float | None = Field(None, gt=0, le=1_000_000)
    """Limit on the cost of a night in US dollars."""
    keep: Keep | None = None
    """What of old runs is kept; null: everything."""

    @field_validator("timezone")
    @classmethod
    def _is_time_zone(cls, value: str) -> str:
        if value not in available_timezones() - {"Factory", "localtime"}:  # Prefect does not know these two
            raise ValueError(f'"{value}" is no time zone such as Europe/Berlin')
        return value

    @field_validator("finish_by")
    @classmethod
    def _is_time_of_day(cls, value: str | None) -> str | None:
        if value and not TIME_OF_DAY.fullmatch(value):
            raise ValueError(
                f'"{value}" is not a time of day such as 07:00. After a date, no night would be in time'
            )
        return value

    @property
    def files(self) -> dict[str, list[str]]:
        """The files that the matrix names, by kind."""
        return {
            kind: [name for name in getattr(self.matrix, f"{kind}s") if re.search(f"^{OWN_FILE}$", name)]
            for kind in KINDS
        }

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the nightly flow."""
        fields = self.model_dump(mode="json", exclude={"schedule", "timezone", "keep"}, exclude_unset=True)
        keep = {"keep": self.keep.model_dump(mode="json")} if self.keep else {}
        finish_by = {"finish_by": f"{self.finish_by} {self.timezone}"} if self.finish_by else {}
        return {name: value for name, value in fields.items() if value is not None} | keep | finish_by


def read_nights(file: Path) -> NightsFile:
    """Read a file of nightly runs."""
    if not file.is_file():
        raise ConfigurationError(f"{file} is not there. `crosscheck nights init` writes one to begin with.")
    nights = read_settings(NightsFile, file)
    return nights.model_copy(update={"matrix": _with_absolute_paths(nights.matrix, file.resolve().parent)})


def _with_absolute_paths(matrix: Matrix, folder: Path) -> Matrix:
    """Return a matrix with absolute paths: those of the file are relative to it, and a worker runs elsewhere."""
    # a field that the file does not have stays unset
    located: dict[str, Any] = {
        name: [located_name(name_or_file, folder) for name_or_file in getattr(matrix, name)]
        for name in matrix.model_fields_set & {"benchmarks", "backbones", "pipelines"}
    }
    if matrix.overrides:
        located["overrides"] = [located_override(override, folder) for override in matrix.overrides]
    if (matrix.questions or "").startswith("@"):
        file = folder / Path(str(matrix.questions)[1:]).expanduser()
        located |= {"questions": f"@{file.resolve()}"} if file.is_file() else {}
    data = {"data": str((folder / Path(matrix.data).expanduser()).resolve())} if matrix.data else {}
    return matrix.model_copy(update={**located, **data})
