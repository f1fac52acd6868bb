"""`crosscheck view`."""

import sys
from dataclasses import dataclass

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class ViewOptions(options.Files):
    """Options of `crosscheck view`."""

    port: int = options.option(
        "--port",
        type=click.IntRange(0, 65535),
        metavar="PORT",
        default=7800,
        help="Port; 0 takes any free one.",
    )
    open: bool = options.flag("--open", "Open the list of runs in a browser.")


@click.command(
    "view",
    epilog="\b\nExamples:\n"
    "  crosscheck view --open\n"
    "  crosscheck view --port 7801 --home /shared/nightly\n"
    "\nFrom another machine, use a tunnel: ssh -L 7800:127.0.0.1:7800 THIS-MACHINE\n"
    "\nExit codes: 0 stopped; 2 bad input, or the port is in use.",
)
@options.record(ViewOptions)
def command(arguments: ViewOptions) -> None:
    """Show all runs in a browser, until Ctrl-C: lists, runs, questions, and two runs side by side.

    The pages are made from the working folder, which they only read. Runs that are added meanwhile are on them. The
    gold SQL is shown for reading only, and no model is called. Only this machine can open the address.
    """
    from threading import Thread

    from flows.pages.viewer import open_server
    from flows.runtime.folders import Folders
    from flows.runtime.signals import logging_to, stopped_by_signals
    from tasks.settings.home import find_data

    folders = Folders(find_data(arguments.data), arguments.read_folder)
    with open_server(folders, arguments.port) as server, logging_to(folders.home):
        url = f"http://127.0.0.1:{server.server_port}/"
        arguments.emit({"url": url}, lambda stream: click.echo(f"Results  {url}\n\nCtrl-C stops it.", stream))
        sys.stdout.flush()
        if arguments.open:
            click.launch(url)
        with stopped_by_signals(lambda: Thread(target=server.shutdown).start()):
            server.serve_forever()
