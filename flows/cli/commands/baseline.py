"""`crosscheck nights baseline`."""

import datetime
from typing import TYPE_CHECKING, Annotated, TextIO

from flows.cli import options
from tasks.core.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from tasks.results.night_baseline import Pin


class Baseline(options.Output):
    """Pin a RUN as the baseline of nightly runs, move it, or list the pinned baselines.

    Nightly runs compare each benchmark, backbone and pipeline with its pinned run, else with its last run that was not
    worse. A change takes effect with the next nightly run.

    Examples:
      crosscheck nights baseline
          lists the pinned baselines and every change
      crosscheck nights baseline latest --reason "Release 4"
      crosscheck nights baseline latest --reason "Loses 1 point, costs half: agreed on 12 November"
          moves the baseline
      crosscheck nights baseline --unpin "demo | offline | rsl-sql" --reason "Release 4 is gone"

    RUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.

    Exit codes: 0 pinned, unpinned or listed; 2 bad input.
    """

    run: Annotated[str | None, options.Argument("[RUN]")] = None
    reason: str | None = None
    """Why; nightly runs show it beside the baseline."""
    unpin: Annotated[str | None, options.Metavar("NAME")] = None
    """Compare "benchmark | backbone | pipeline" with its last run that was not worse again."""

    def __call__(self) -> None:
        from tasks.results.night_baseline import current_pins, pin_history, write_pin
        from tasks.results.run_record import json_of

        history = pin_history(self.read_folder)
        if self.run is None and self.unpin is None:
            if self.reason is not None:
                raise ConfigurationError("--reason needs a RUN to pin, or --unpin.")
            self.emit(
                {
                    "baselines": [json_of(pin) for pin in current_pins(history).values()],
                    "changes": [json_of(pin) for pin in history],
                },
                lambda stream: _list(history, stream),
            )
            return
        pin = self._change(current_pins(history))
        write_pin(pin, self.folder)
        baseline = f"run {pin.run_id} from now on" if pin.run_id else "its last run that was not worse again"
        self.emit(pin, f"Nightly runs compare {pin.name} with {baseline}.")

    def _change(self, pinned: "dict[str, Pin]") -> "Pin":
        """Return the change that the options describe."""
        from tasks.results.build_record import user_name
        from tasks.results.night_baseline import Pin, named_run

        if self.run is not None and self.unpin is not None:
            raise ConfigurationError("Give either a RUN to pin, or --unpin NAME.")
        if not (self.reason or "").strip():
            raise ConfigurationError('A baseline is moved with a reason: add --reason "TEXT".')
        now, reason = datetime.datetime.now(datetime.UTC).replace(microsecond=0), str(self.reason).strip()
        if self.unpin is not None:
            if self.unpin not in pinned:
                near = did_you_mean(self.unpin, list(pinned))
                raise ConfigurationError(f'No baseline is pinned for "{self.unpin}". {near}'.strip())
            return Pin(self.unpin, None, reason, now, user_name())
        run = named_run(str(self.run), self.warehouse)
        return Pin(f"{run.benchmark} | {run.backbone} | {run.pipeline}", run.run_id, reason, now, user_name())


def _list(history: "tuple[Pin, ...]", stream: TextIO) -> None:
    from tasks.documents.terminal import literal, open_console
    from tasks.results.night_baseline import current_pins

    console = open_console(stream)
    if not history:
        console.print(
            "No baseline is pinned: each nightly run is compared with the last run that was not worse.\n"
            'To pin one: crosscheck nights baseline RUN --reason "TEXT"'
        )
        return
    now = current_pins(history).values()
    for pin in reversed(history):
        kind = "[bold]pinned[/]" if pin in now else "[dim]before[/]" if pin.run_id else "[dim]unpinned[/]"
        console.print(f"{kind}  {literal(pin.name)}  {pin.run_id or ''}")
        console.print(f"  {literal(pin.sentence.removeprefix('pinned '))}")
