"""The matrix of a sweep: every backbone with every pipeline and every combination of the grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

from flows.questions.candidate_backbones import check_candidates
from flows.questions.estimate import is_free
from tasks.backbone.kinds.kind import check_backbone
from tasks.core.errors import ConfigurationError
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.load import parse_override
from tasks.settings.pipeline import has_oracle


@dataclass(frozen=True)
class Cell:
    """One evaluation of a sweep."""

    settings: EvaluationSettings = field(repr=False)  # what is evaluated
    varied: tuple[str, ...] = ()  # the grid's settings, `pipeline.demonstrations.k=3`, of this cell

    @property
    def name(self) -> str:
        """Label of the settings, unique within the sweep."""
        return " | ".join((self.settings.label, *self.varied))

    @property
    def unranked(self) -> str:
        """Why it is not ranked; "" where it is."""
        if has_oracle(self.settings.pipeline):
            return "saw the gold"
        return "gold translated by sqlglot" if self.settings.benchmark.transpile_gold else ""

    @property
    def free(self) -> bool:
        """Whether all its calls are free."""
        return is_free(self.settings)


def plan_sweep(
    settings_of: Callable[[str, str, tuple[str, ...]], EvaluationSettings],
    backbones: Sequence[str],
    pipelines: Sequence[str],
    grid: Sequence[Sequence[str]] = (),
    *,
    sends_requests: bool = True,
) -> tuple[Cell, ...]:
    """Read the settings of every cell, pipelines varying fastest but for the grid: `pipeline.demonstrations.k=0,1,3`.

    `settings_of` returns the settings of a backbone, a pipeline and the grid's settings of a cell;
    `sends_requests` is as in `check_backbone`.

    Raises:
        ConfigurationError: an unknown name, key or value, a missing key of a backbone, two equal cells, or none.
    """
    _check_grid(grid)
    if not (backbones and pipelines and all(grid)):
        raise ConfigurationError("A sweep takes at least one backbone, pipeline, and value of each setting.")
    cells = []
    for backbone, pipeline, varied in product(backbones, pipelines, product(*grid)):
        try:
            cells.append(Cell(settings_of(backbone, pipeline, varied), varied))
        except ConfigurationError as error:
            raise ConfigurationError(f"{backbone} with {pipeline}: {error}") from None
    names = [cell.name for cell in cells]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigurationError(
            f'The sweep has "{twice}" twice. Name every backbone, pipeline and value once.'
        )
    for cell in cells:
        check_backbone(cell.settings.backbone, sends_requests=sends_requests)
        check_candidates(cell.settings, sends_requests=sends_requests)
    return tuple(cells)


def names(text: str, option: str) -> tuple[str, ...]:
    """Split a comma-separated list of names.

    Raises:
        ConfigurationError: there is none.
    """
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ConfigurationError(f"{option} {text!r}: name at least one.")
    return found


def read_grid(texts: Sequence[str]) -> list[list[str]]:
    """Split `pipeline.demonstrations.k=0,1,3` into its settings, `pipeline.demonstrations.k=0` and so on.

    Raises:
        ConfigurationError: a text has another form.
    """
    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ConfigurationError(
                f"--grid {text}: write key=value,value, for example --grid pipeline.demonstrations.k=0,1,3."
            )
        axes.append([f"{key.strip()}={value.strip()}" for value in values.split(",")])
    return axes


def _check_grid(grid: Sequence[Sequence[str]]) -> None:
    for setting in (setting for axis in grid for setting in axis):
        kind, _, _ = parse_override(setting)
        if kind not in ("backbone", "pipeline"):
            raise ConfigurationError(
                f"--grid {setting}: {kind}.* is the same for a whole sweep; --set changes it for all of it."
            )
