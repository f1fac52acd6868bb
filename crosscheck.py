"""The command `crosscheck`, also as `python -m crosscheck`, and the public interface: `from crosscheck import ...`.

The names of the interface are those of `flows.api.interface`; they are imported when the first of them is used.

Modules named `flows` or `tasks` in the working folder or on PYTHONPATH are not imported in the place of Crosscheck's,
neither here nor in a process that this one starts: the folder of this file is searched first.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flows.api.interface import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Return a name of the public interface.

        Raises:
            AttributeError: the interface has no such name.
        """
        # Python itself looks for __path__ and others when the command starts.
        if name == "__all__" or not name.startswith("__"):
            from flows.api import interface

            if name == "__all__" or name in interface.__all__:
                return getattr(interface, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Return the names of the public interface."""
        from flows.api import interface

        return ["main", *interface.__all__]


def main() -> None:
    """Run the command line and exit."""
    folder = str(Path(__file__).resolve().parent)
    sys.path.insert(0, folder)
    named = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{named}" if named else folder
    from flows.cli.program import main as run

    run()


if __name__ == "__main__":
    main()
