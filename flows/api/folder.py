"""A working folder: its stores, and the settings of what is done in it."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.api.inputs import Settings, arguments_named, overrides, text
from flows.api.records import Run
from flows.runtime.control import Progress
from tasks.settings.home import Home, find_home

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings
    from tasks.tracking.warehouse.runs import Warehouse
    from tasks.tracking.warehouse.stored import StoredRun


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A working folder; relative paths are relative to the current folder.

    Attributes:
        home: working folder; None: CROSSCHECK_HOME, else `.crosscheck`.
        data: folder of the benchmarks' files; None: CROSSCHECK_DATA, else `data`.
        tags: tags of the runs that are made; `name` and `note` have a meaning of their own.
        quiet: whether no progress is shown.
    """

    home: str | Path | None = None
    data: str | Path | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    quiet: bool = False

    @property
    def _home(self) -> Home:
        return find_home(text(self.home))

    @property
    def _warehouse(self) -> "Warehouse":
        from tasks.tracking.warehouse.runs import Warehouse

        return Warehouse(find_home(text(self.home), make=False).warehouse)

    def _find(self, run: Run | str) -> str:
        from tasks.tracking.warehouse.run_names import find_run

        return run.run_id if isinstance(run, Run) else find_run(run, self._warehouse.runs()).run_id

    def _read(self, run: Run | str) -> "StoredRun":
        return self._warehouse.read_run(self._find(run))

    def _settings(
        self,
        benchmark: str | Path,
        backbone: str | Path,
        pipeline: str | Path,
        settings: Settings | None,
        varied: tuple[str, ...] = (),
        **more: Any,
    ) -> "EvaluationSettings":
        from tasks.settings.assemble import EvaluationChoice, evaluation_settings

        choice = EvaluationChoice(
            benchmark=str(benchmark),
            backbone=str(backbone),
            pipeline=str(pipeline),
            overrides=(*overrides(settings), *varied),
            data=text(self.data),
            home=text(self.home),
            **more,
        )
        with arguments_named():
            return evaluation_settings(choice)

    def _labels(self) -> Mapping[str, str]:
        from tasks.settings.evaluation import labels

        others = [f"{key}={value}" for key, value in self.tags.items() if key not in ("name", "note")]
        return labels(self.tags.get("name"), others, self.tags.get("note")).as_tags

    @contextmanager
    def _progress(self, title: str = "") -> Iterator[Progress]:
        from flows.cli.progress import open_progress

        if self.quiet:
            yield Progress()
            return
        with open_progress(sys.stderr, title) as progress:
            yield progress
