"""`crosscheck nights baseline`."""

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from tasks.results.night_baseline import Pin


@dataclass(frozen=True, kw_only=True)
class BaselineOptions(options.Output):
    """Options of `crosscheck nights baseline`."""

    run: str | None = options.argument(required=False, metavar="[RUN]")
    reason: str | None = options.option(
        "--reason", metavar="TEXT", help="Why; nightly runs show it beside the baseline."
    )
    unpin: str | None = options.option(
        "--unpin",
        metavar="NAME",
        help='Compare "benchmark | backbone | pipeline" with its last run that was not worse again.',
    )


@click.command(
    "baseline",
    epilog="\b\nExamples:\n"
    "  crosscheck nights baseline\n"
    "      lists the pinned baselines and every change\n"
    '  crosscheck nights baseline latest --reason "Release 4"\n'
    '  crosscheck nights baseline latest --reason "Loses 1 point, costs half: agreed on 12 November"\n'
    "      moves the baseline\n"
    '  crosscheck nights baseline --unpin "demo | offline | rsl-sql" --reason "Release 4 is gone"\n'
    "\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "\nExit codes: 0 pinned, unpinned or listed; 2 bad input.",
)
@options.record(BaselineOptions)
def command(arguments: BaselineOptions) -> None:
    """Pin a RUN as the baseline of nightly runs, move it, or list the pinned baselines.

    Nightly runs compare each benchmark, backbone and pipeline with its pinned run, else with its last run that was not
    worse. A change takes effect with the next nightly run.
    """
    from tasks.results.night_baseline import current_pins, pin_history, write_pin
    from tasks.results.run_record import json_of

    history = pin_history(arguments.read_folder)
    if arguments.run is None and arguments.unpin is None:
        if arguments.reason is not None:
            raise ConfigurationError("--reason needs a RUN to pin, or --unpin.")
        arguments.emit(
            {
                "baselines": [json_of(pin) for pin in current_pins(history).values()],
                "changes": [json_of(pin) for pin in history],
            },
            lambda stream: _list(history, stream),
        )
        return
    pin = _change(arguments, current_pins(history))
    write_pin(pin, arguments.folder)
    arguments.emit(json_of(pin), lambda stream: click.echo(_message(pin), stream))


def _change(arguments: BaselineOptions, pinned: "dict[str, Pin]") -> "Pin":
    """Return the change that the options describe."""
    from tasks.results.build_record import user_name
    from tasks.results.night_baseline import Pin, named_run
    from tasks.results.warehouse.runs import Warehouse

    if arguments.run is not None and arguments.unpin is not None:
        raise ConfigurationError("Give either a RUN to pin, or --unpin NAME.")
    if not (arguments.reason or "").strip():
        raise ConfigurationError('A baseline is moved with a reason: add --reason "TEXT".')
    now, reason = datetime.datetime.now(datetime.UTC).replace(microsecond=0), str(arguments.reason).strip()
    if arguments.unpin is not None:
        if arguments.unpin not in pinned:
            raise ConfigurationError(
                f'No baseline is pinned for "{arguments.unpin}". {did_you_mean(arguments.unpin, list(pinned))}'.strip()
            )
        return Pin(arguments.unpin, None, reason, now, user_name())
    run = named_run(str(arguments.run), Warehouse(arguments.read_folder.warehouse))
    return Pin(f"{run.benchmark} | {run.backbone} | {run.pipeline}", run.run_id, reason, now, user_name())


def _message(pin: "Pin") -> str:
    if pin.run_id is None:
        return f"Nightly runs compare {pin.name} with its last run that was not worse again."
    return f"Nightly runs compare {pin.name} with run {pin.run_id} from now on."


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
