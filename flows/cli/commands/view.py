"""`crosscheck view`."""

import sys
from typing import Annotated

import click
from annotated_types import Ge, Le

from flows.cli import options


class View(options.Files):
    """Show all runs in a browser, until Ctrl-C: lists, runs, questions, and two runs side by side.

    The pages are made from the working folder, which they only read. Runs that are added meanwhile are on them. The
    gold SQL is shown for reading only, and no model is called. Only this machine can open the address.

    Examples:
      crosscheck view --open
      crosscheck view --port 7801 --home /shared/nightly

    From another machine, use a tunnel: ssh -L 7800:127.0.0.1:7800 THIS-MACHINE

    Exit codes: 0 stopped; 2 bad input, or the port is in use.
    """

    port: Annotated[int, options.Metavar("PORT"), Ge(0), Le(65535)] = 7800
    """Port; 0 takes any free one."""
    open: bool = False
    """Open the list of runs in a browser."""

    def __call__(self) -> None:
        from threading import Thread

        from flows.pages.viewer import open_server
        from flows.runtime.folders import Folders
        from flows.runtime.signals import logging_to, stopped_by_signals
        from tasks.settings.home import find_data

        folders = Folders(find_data(self.data), self.read_folder)
        with open_server(folders, self.port) as server, logging_to(folders.home):
            url = f"http://127.0.0.1:{server.server_port}/"
            self.emit({"url": url}, f"Results  {url}\n\nCtrl-C stops it.")
            sys.stdout.flush()
            if self.open:
                click.launch(url)
            with stopped_by_signals(lambda: Thread(target=server.shutdown).start()):
                server.serve_forever()
