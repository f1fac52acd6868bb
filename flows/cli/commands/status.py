"""`crosscheck status`."""

from typing import Annotated

from flows.cli import options


class Status(options.Output):
    """Show what the working folder holds: each store with its size, and what `crosscheck clean` would free.

    Examples:
      crosscheck status
      crosscheck status --json

    Exit codes: 0 shown; 2 bad input.
    """

    keep: Annotated[str, options.Metavar("AGE")] = "30d"
    """Same as `crosscheck clean --keep`."""

    def __call__(self) -> None:
        from flows.evaluate.working_folder import FolderDocument, not_ours, open_folder, print_holdings
        from tasks.results.run_record import json_of
        from tasks.settings.evaluation import Keep, age

        age(self.keep)
        folder = open_folder(self.read_folder, Keep.of_options(age=self.keep))
        holdings = folder.holdings()
        document = json_of(FolderDocument.of(folder, holdings)) | {"elsewhere": not_ours(self.read_folder)}
        self.emit(document, lambda stream: print_holdings(folder, holdings, stream))
