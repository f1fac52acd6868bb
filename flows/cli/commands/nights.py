"""`crosscheck nights`."""

import asyncio
import datetime
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError, ExitCode, did_you_mean

if TYPE_CHECKING:
    from flows.prefect.schedule import NightsStatus
    from tasks.documents.model import Document
    from tasks.results.night import Night
    from tasks.results.night_baseline import Pin


NAME = "nights.yaml"
RUNS_SHOWN = 6
"""Evaluations that are listed at most, and runs of the last night; MLflow's page of all nights has the others."""


@dataclass(frozen=True)
class NightPages:
    """Addresses of pages of MLflow."""

    served: bool = False  # whether a server is known; if not, the addresses hold once one is started
    nights: tuple[str, ...] = ()  # the view of all nightly runs, one per benchmark of the night
    runs: Mapping[str, str] = field(default_factory=dict)  # the run of each evaluation, by its name


class Init(options.Output):
    """Write a FILE to begin with (default: nights.yaml).

    It has the schedule, the matrix of benchmarks, backbones and pipelines, and the limits, with a comment on each.

    Example:
      crosscheck nights init

    Exit codes: 0 written; 2 bad input, or FILE exists.
    """

    file: Annotated[Path, options.Argument("[FILE]")] = Path(NAME)

    def __call__(self) -> None:
        from flows.matrix.nights_file import TEMPLATE

        try:
            with self.file.open("x", encoding="utf-8") as file:
                file.write(TEMPLATE)
        except FileExistsError:
            raise ConfigurationError(f"{self.file} exists. Name another file, or edit it.") from None
        except OSError as error:
            with suppress(OSError):
                self.file.unlink()  # on a full disk it is empty, and would be refused the next time
            raise ConfigurationError(f"{self.file} cannot be written: {error.strerror}.") from None
        text = f"Written to {self.file}. Edit it, then: crosscheck nights deploy"
        self.emit({"file": str(self.file)}, text)


class Deploy(options.Output):
    """Deploy the nightly runs of FILE (default: nights.yaml).

    Workers run them in this working folder, unless a worker's CROSSCHECK_HOME names another. If you change FILE, deploy
    it again. Changes of the model, benchmark and pipeline files that it names apply from the next night on.

    It replaces an earlier schedule at Prefect's server: that of `crosscheck up` for this working folder, or of
    PREFECT_API_URL.

    Examples:
      crosscheck nights deploy
      crosscheck nights deploy team/nights.yaml

    Exit codes: 0 deployed; 2 bad input, or Prefect's server does not answer or refuses.
    """

    file: Annotated[Path, options.Argument("[FILE]")] = Path(NAME)

    def __call__(self) -> None:
        from flows.matrix.nights_file import read_nights

        nights = read_nights(self.file)
        has_own_server = _use_server(self)  # before the imports below, which import Prefect
        from flows.evaluate.deployment import named_evaluations, settings_of
        from flows.evaluate.forms import offering
        from flows.evaluate.preparation import prepare
        from flows.matrix.nightly import check_prepared, night_limits, read_baselines
        from flows.prefect.schedule import deploy_nights, read_status
        from flows.prefect.settings import DEPLOYED_HOME
        from flows.prefect.up import POOL
        from tasks.core.wording import counted, shorten

        settings = [settings_of(evaluation) for evaluation in nights.matrix.evaluations]
        night_limits(settings, nights.finish_by, nights.budget_usd)
        names = named_evaluations(nights.matrix)
        joined = [" | ".join(name) for name in names]
        nights.matrix.check_baselines(joined)
        if has_own_server:  # workers elsewhere have data and runs of their own
            baselines = read_baselines(nights.matrix, joined, self.folder, self.warehouse, [])
            with self.progress() as progress:
                for name, evaluation in zip(names, settings, strict=True):
                    benchmark = evaluation.benchmark
                    # without `data`, a worker may have other data than this shell; the demo is made where it runs
                    is_here = Path(evaluation.data, benchmark.folder).is_dir() or benchmark.layout == "demo"
                    if nights.matrix.data or is_here:
                        checked = evaluation.model_copy(update={"home": str(self.folder.path)})
                        prepared = prepare(checked, progress, sends_requests=False, choose=False)
                        check_prepared(name, "", baselines, self.warehouse, prepared)
        home = {DEPLOYED_HOME: str(self.folder.path)}

        async def run() -> "NightsStatus":
            with offering(nights.files):
                await deploy_nights(POOL, nights.schedule, nights.timezone, nights.parameters, home)
            return await read_status(POOL)

        status = asyncio.run(run())
        listed = shorten(joined, RUNS_SHOWN)
        _show(self, status, deployed=f"Deployed: {counted(len(names), 'evaluation')} each night, {listed}.")


class Status(options.Output):
    """Show the schedule, the next run, the workers and the last result.

    If the last nightly run ended without a result, it says so, and how it continues.

    Examples:
      crosscheck nights status
      crosscheck nights status --json

    Exit codes: 0 shown, whatever the verdict; 2 bad input, or Prefect's server does not answer.
    """

    def __call__(self) -> None:
        _use_server(self)
        from flows.prefect.schedule import read_status
        from flows.prefect.up import POOL
        from tasks.results.night import all_nights

        nights = all_nights(self.read_folder)
        pages = _pages(nights[0], self) if nights else None
        _show(self, asyncio.run(read_status(POOL)), nights[0] if nights else None, pages)


class Run(options.Output):
    """Start a nightly run now, on the workers, with what is deployed.

    NAME is the name of a nightly run that ended without a result; without NAME it is a new one.

    Examples:
      crosscheck nights run
      crosscheck nights run 2026-11-21T01:30Z
          continues the nightly run of that name; what was paid for is reused

    Exit codes: 0 started; 2 bad input, none is deployed, or Prefect's server does not answer.
    """

    name: Annotated[str | None, options.Argument("[NAME]")] = None

    def __call__(self) -> None:
        _use_server(self)
        from flows.prefect.artifacts import prefect_page
        from flows.prefect.schedule import start_night

        flow_run = asyncio.run(start_night(self.name))
        page = prefect_page(flow_run)
        self.emit({"flow_run": flow_run, "page": page}, f"Started: {page}")


def _use_server(arguments: options.Output) -> bool:
    """Set PREFECT_API_URL to the server of `crosscheck up`, if no other is named; Prefect reads it when imported.

    Return whether the server is that of this working folder, so that nightly runs run here.
    """
    from flows.prefect.settings import CLIENT, apply
    from flows.runtime.folder_use import find_running_servers

    running = find_running_servers(arguments.read_folder)
    if not os.environ.get("PREFECT_API_URL"):
        if running is None:
            raise ConfigurationError(
                "No server of Prefect runs for this working folder. Start one with `crosscheck up`, or name one with "
                "PREFECT_API_URL."
            )
        apply({"PREFECT_API_URL": running.prefect_api})
    apply(CLIENT)
    return running is not None and running.prefect_api == os.environ["PREFECT_API_URL"]


def _pages(night: "Night", arguments: options.Output) -> NightPages:
    """Return the pages in MLflow of a nightly run's evaluations, as far as MLflow has them."""
    from flows.runtime.folder_use import store_for_links
    from tasks.results.mlflow.store import ui_url

    store = store_for_links(arguments.read_folder)
    views = []
    runs = {}
    for entry in night.entries:
        record = arguments.warehouse.record_of(entry.run_id) if entry.run_id else None
        if record and record.mlflow and record.mlflow.experiment_id:
            experiment = record.mlflow.experiment_id
            views.append(ui_url(store, experiment, view="nights"))
            runs[entry.name] = ui_url(store, experiment, record.mlflow.run_id)
    return NightPages(store.served, tuple(dict.fromkeys(views)), runs)


def _show(
    arguments: options.Output,
    status: "NightsStatus",
    last: "Night | None" = None,
    pages: NightPages | None = None,
    deployed: str = "",
) -> None:
    """Print the status, with the last nightly run, and its pages in MLflow where a server shows them."""
    from tasks.results.run_record import json_of

    served = pages if pages and pages.served else None
    last_as_json: dict[str, Any] | None = None
    if last:
        last_as_json = {"name": last.name, "colour": last.colour, "mlflow": served.runs if served else {}}
    arguments.emit(json_of(status) | {"last": last_as_json}, _document(status, last, served, deployed))


def _document(
    status: "NightsStatus", last: "Night | None", pages: NightPages | None, deployed: str
) -> "Document":
    from tasks.documents.model import Block, Code, Document, Facts, Sentence

    if not status.deployed:
        return Document("Nightly runs", (Sentence("None is deployed: crosscheck nights deploy", "warning"),))
    expected = f"{status.expected.astimezone():%Y-%m-%d %H:%M %Z}" if status.expected else "none is scheduled"
    facts = [
        ("schedule", status.schedule or "none"),
        ("next", expected),
        ("workers", ", ".join(status.workers) or "none is online"),
        ("running", f"{status.running:,}"),
    ]
    if last is not None:
        facts.append(("last", f"{last.name}: {last.colour}. {last.verdict}"))
    if pages:
        facts += [("its runs", f"{name}: {page}") for name, page in [*pages.runs.items()][:RUNS_SHOWN]]
        facts += [("all nights", page) for page in pages.nights]
    blocks: list[Block] = [*([Sentence(deployed)] if deployed else []), Facts(tuple(facts))]
    if not status.workers:
        blocks.append(Sentence("No worker is online, so no nightly run starts: crosscheck up", "error"))
    if status.without_result:
        correct = f"Correct that (after a change of {NAME}: crosscheck nights deploy), then continue it"
        how = correct if status.problem.startswith("Failed") else "Continue it"
        ended = f"The nightly run {status.without_result} ended without a result: {status.problem}"
        blocks += [
            Sentence(ended, "error"),
            Sentence(f"{how} under its name; what was paid for is reused:"),
            Code(f"crosscheck nights run {status.without_result}"),
        ]
    if status.late:
        blocks.append(Sentence(f"Late: {status.late:,} nightly runs should have started.", "error"))
    return Document("Nightly runs", tuple(blocks))


class Show(options.Page):
    """Show the result of one nightly run, or list all nightly runs.

    NAME is the name of a nightly run or its first characters, or `latest`, `latest~1`, ...; without NAME, all are
    listed.

    Examples:
      crosscheck nights show
          lists all nightly runs
      crosscheck nights show latest
      crosscheck nights show latest~1 --html night.html
          the run before the latest, as one page with every broken question
      crosscheck nights show 2026-11-21T01:30Z --json
      crosscheck nights show latest --fail-if red
          for a script: exit code 1 if it is red

    Exit codes: 0 shown, whatever the verdict; 1 --fail-if holds; 2 bad input.
    """

    name: Annotated[str | None, options.Argument("[NAME]")] = None
    fail_if: Literal["red", "amber"] | None = None
    """For scripts: end with exit code 1 if the nightly run is red; amber: if it is red or amber."""

    def __call__(self) -> int:
        from tasks.documents.terminal import print_document
        from tasks.pages.night import night_document
        from tasks.pages.night_evaluation import overdue
        from tasks.results.night import all_nights, find_night

        nights = all_nights(self.read_folder)
        late = overdue(nights[0], datetime.datetime.now(datetime.UTC)) if nights else ""
        if self.name is None and self.html is None and self.fail_if is None:
            self._list(nights, late)
            return 0
        night = find_night(self.name or "latest", nights)
        self.write_page(lambda: night_document(night, self.warehouse))

        def show(stream: TextIO) -> None:
            print_document(night_document(night), stream)
            if pages := _pages(night, self).nights:
                click.echo(f"\nall nights in MLflow: {', '.join(pages)}", stream)
            if late and night is nights[0]:
                click.echo(f"\n{late}", stream)

        self.emit(night, show)
        failing_colours = {None: (), "red": ("Red",), "amber": ("Red", "Amber")}[self.fail_if]
        return ExitCode.NEGATIVE if night.colour in failing_colours else ExitCode.DONE

    def _list(self, nights: "tuple[Night, ...]", late: str) -> None:
        from tasks.documents.model import Document
        from tasks.documents.terminal import print_document
        from tasks.pages.night import nights_table
        from tasks.results.night import BRIEF_FIELDS
        from tasks.results.run_record import json_of

        def show(stream: TextIO) -> None:
            if nights:
                print_document(Document("", (nights_table(nights),)), stream)
                if late:
                    click.echo(f"\n{late}", stream)
                return
            click.echo(
                f"No nightly run has finished in {self.read_folder.nights} yet. "
                '"crosscheck nights status" shows what is running. The deployment "nightly" starts nightly runs; see '
                '"crosscheck up".',
                stream,
            )

        listed = [json_of(night, BRIEF_FIELDS) for night in nights]
        self.emit({"nights": listed, "overdue": late or None}, show)


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
        from tasks.results.build_record import user_name
        from tasks.results.night_baseline import Pin, named_run

        if self.run is not None and self.unpin is not None:
            raise ConfigurationError("Give either a RUN to pin, or --unpin NAME.")
        if not (self.reason or "").strip():
            raise ConfigurationError('A baseline is moved with a reason: add --reason "TEXT".')
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        reason = str(self.reason).strip()
        if self.unpin is not None:
            if self.unpin not in pinned:
                hint = did_you_mean(self.unpin, list(pinned))
                raise ConfigurationError(f'No baseline is pinned for "{self.unpin}". {hint}'.strip())
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
    current = current_pins(history).values()
    for pin in reversed(history):
        kind = "[bold]pinned[/]"
        if pin not in current:
            kind = "[dim]before[/]" if pin.run_id else "[dim]unpinned[/]"
        console.print(f"{kind}  {literal(pin.name)}  {pin.run_id or ''}")
        console.print(f"  {literal(pin.sentence.removeprefix('pinned '))}")
