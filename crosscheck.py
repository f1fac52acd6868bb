"""The command `crosscheck`, also as `python -m crosscheck`.

Modules named `flows` or `tasks` in the working folder or on PYTHONPATH are not imported in the place of Crosscheck's,
neither here nor in a process that this one starts: the folder of this file is searched first.
"""

import os
import sys
from pathlib import Path


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
