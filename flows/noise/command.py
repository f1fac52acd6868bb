"""`crosscheck noise`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from flows.cli.output import emit_json

if TYPE_CHECKING:
    from flows.runtime.control import Control


@dataclass(frozen=True, kw_only=True)
class NoiseOptions(options.Labels, options.Page, options.Data):
    """Options of `crosscheck noise`."""

    run: str = options.argument(metavar="RUN")
    repeats: int = options.number("--repeats", default=5, help="Number of identical runs.")
    budget: float | None = options.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Stop when the paid calls have cost this amount.",
    )
    dry_run: bool = options.flag(
        "--dry-run", "Show what is missing and its estimated cost; send nothing. No key is needed."
    )
    everything: bool = options.flag("--all", "List every unstable question, not only the first 10.")
    overrides: tuple[str, ...] = options.set_option(
        "Change a setting that does not influence the score, such as backbone.concurrency."
    )


@click.command(
    "noise",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    "  crosscheck noise latest --dry-run\n"
    "      what five repeats of the last run are expected to cost\n"
    "  crosscheck noise latest --repeats 5 --budget 20\n"
    "  crosscheck noise 20261121-020000-3f9a1c --repeats 8 --html noise.html\n"
    "      three more repeats, if five are there\n"
    "  crosscheck compare 20261121-020000-3f9a1c:repeats 20261122-020000-7c41d2:repeats\n"
    "      compares the repeats of two runs\n"
    "\nEach repeat is a run of its own, with the settings of RUN and new replies to every request. RUN itself is in\n"
    "no figure. Interrupted, or the budget is spent? Run the same command again to continue: no reply is paid\n"
    "for twice.\n"
    "\nExit codes: 0 every repeat is there; 2 bad input or configuration; 3 repeats are missing or have questions\n"
    "without an answer, and the same command completes them; 130 interrupted, all answers are kept.",
)
@options.record(NoiseOptions)
def command(given: NoiseOptions) -> int:
    """Repeat RUN with new replies of the model, and measure how much identical runs differ.

    Shows the flip rate (the share of questions whose verdict differs between two identical runs), the mean of EX with
    its standard deviation, pass^k, the stability of each question, and the smallest loss that a comparison can prove.
    Nightly runs with new replies use the measured flip rate.
    """
    from flows.cli.progress import open_progress
    from flows.noise.display import estimate_document, problems_document
    from flows.noise.plan import plan_noise
    from flows.noise.repeating import estimate_as_object, make_repeats
    from flows.runtime.folders import Folders
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.settings.home import find_data
    from tasks.tracking.repeats.noise_document import UNSTABLE_SHOWN, noise_document

    labels = given.labels
    plan = plan_noise(
        given.run,
        given.repeats,
        Folders(find_data(given.data), given.folder),
        overrides=given.overrides,
        budget_usd=given.budget,
        sends_requests=not given.dry_run,
    )
    print_document(estimate_document(plan, given.budget), sys.stderr if given.as_json else sys.stdout)
    if given.dry_run:
        if given.as_json:
            emit_json(
                {"run_id": plan.parent.run.run_id, "dry_run": True, "estimate": estimate_as_object(plan)}
            )
        return 0

    @contextmanager
    def opened(place: str) -> "Iterator[Control]":
        from flows.runtime.control import Control

        with open_progress(sys.stderr, place) as progress:
            yield Control(progress)

    measured = make_repeats(plan, opened, labels=labels, budget_usd=given.budget)
    document = None
    if measured.noise:
        document = noise_document(measured.noise, None if given.everything else UNSTABLE_SHOWN)
        page = document
        given.write_page(lambda: html(page))
    left = problems_document(measured)

    def show(stream: TextIO) -> None:
        for each in (document, left):
            if each:
                print_document(each, stream)

    given.emit(measured.as_object() | {"dry_run": False}, show, text_too=True)
    if document:
        given.name_page()
    return measured.exit_code
