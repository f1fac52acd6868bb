"""`crosscheck nights init`, `deploy`, `run` and `status`."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flows.cli import options

if TYPE_CHECKING:
    from flows.matrix.nightly import NightPages
    from flows.prefect.schedule import NightsStatus
    from tasks.documents.model import Document
    from tasks.results.night import Night

NAME = "nights.yaml"
RUNS_SHOWN = 6
"""Evaluations that are listed at most, and runs of the last night; MLflow's page of all nights has the others."""


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
        from tasks.core.errors import ConfigurationError

        try:
            with self.file.open("x", encoding="utf-8") as file:
                file.write(TEMPLATE)
        except FileExistsError:
            raise ConfigurationError(f"{self.file} exists. Name another file, or edit it.") from None
        except OSError as error:
            raise ConfigurationError(f"{self.file} cannot be written: {error.strerror}.") from None
        self.emit(
            {"file": str(self.file)},
            f"Written to {self.file}. Edit it, then: crosscheck nights deploy",
        )


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
        here = _use_server(self)
        from flows.evaluate.deployment import named_evaluations, settings_of
        from flows.evaluate.forms import offering
        from flows.matrix.nightly import night_limits
        from flows.prefect.schedule import deploy_nights, read_status
        from flows.prefect.settings import DEPLOYED_HOME
        from flows.prefect.up import POOL
        from tasks.core.wording import counted, shorten
        from tasks.results.night_baseline import named_run

        settings = [settings_of(evaluation) for evaluation in nights.matrix.evaluations]
        night_limits(settings, nights.finish_by, nights.budget_usd)
        names = named_evaluations(nights.matrix)
        nights.matrix.check_baselines({" | ".join(name) for name in names})
        if here:  # workers elsewhere have runs of their own
            for baseline in nights.matrix.baselines.values():
                named_run(baseline, self.warehouse)
        home = {DEPLOYED_HOME: str(self.folder.path)}

        async def run() -> "NightsStatus":
            with offering(nights.files):
                await deploy_nights(POOL, nights.schedule, nights.timezone, nights.parameters, home)
            return await read_status(POOL)

        status = asyncio.run(run())
        listed = shorten([" | ".join(name) for name in names], RUNS_SHOWN)
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
        from flows.matrix.nightly import night_pages
        from flows.prefect.schedule import read_status
        from flows.prefect.up import POOL
        from tasks.results.night import all_nights

        nights = all_nights(self.read_folder)
        pages = night_pages(nights[0], self.read_folder) if nights else None
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

    Returns:
        Whether it is the server of `crosscheck up` for this working folder, so that nights run here.
    """
    from flows.prefect.settings import CLIENT, apply
    from flows.runtime.folder_use import find_running_servers
    from tasks.core.errors import ConfigurationError

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


def _show(
    arguments: options.Output,
    status: "NightsStatus",
    last: "Night | None" = None,
    pages: "NightPages | None" = None,
    deployed: str = "",
) -> None:
    from dataclasses import asdict

    from pydantic_core import to_jsonable_python

    served = pages if pages and pages.served else None
    result: dict[str, Any] | None = None
    if last:
        result = {"name": last.name, "colour": last.colour, "mlflow": served.runs if served else {}}
    arguments.emit(
        to_jsonable_python(asdict(status) | {"last": result}),
        _document(status, last, served, deployed),
    )


def _before_continuing(problem: str) -> str:
    if problem.startswith("Failed"):
        return f"Correct that (after a change of {NAME}: crosscheck nights deploy), then continue it"
    return "Continue it"


def _document(
    status: "NightsStatus", last: "Night | None", pages: "NightPages | None", deployed: str
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
        shown = list(pages.runs.items())[:RUNS_SHOWN]
        facts += [("its runs", f"{name}: {page}") for name, page in shown]
        facts += [("all nights", page) for page in pages.nights]
    blocks: list[Block] = [*([Sentence(deployed)] if deployed else []), Facts(tuple(facts))]
    if not status.workers:
        blocks.append(Sentence("No worker is online, so no nightly run starts: crosscheck up", "error"))
    if status.without_result:
        blocks += [
            Sentence(
                f"The nightly run {status.without_result} ended without a result: {status.problem}", "error"
            ),
            Sentence(f"{_before_continuing(status.problem)} under its name; what was paid for is reused:"),
            Code(f"crosscheck nights run {status.without_result}"),
        ]
    if status.late:
        blocks.append(Sentence(f"Late: {status.late:,} nightly runs should have started.", "error"))
    return Document("Nightly runs", tuple(blocks))
