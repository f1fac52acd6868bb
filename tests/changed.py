"""Runs the fast tests of the folders that changed files belong to.

`python -m tests.changed [FILE ...]`: the files, relative to the repository; without any, those that Git calls changed
against HEAD. The tests of `tasks/sql/joins.py` are in `tests/tasks/sql`, with those of a changed test file itself.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
LAYERING = "tests/test_layering.py"


def tests_of(files: Iterable[str]) -> list[str]:
    """Return the test files and folders for changed files, each once, none inside another.

    >>> tests_of(["tasks/sql/joins.py", "tests/tasks/sql/test_joins.py", "README.md"])
    ['tests/tasks/sql', 'tests/test_layering.py']
    """
    found: set[PurePosixPath] = set()
    for file in map(PurePosixPath, files):
        if file.parts[0] == "tests" and file.name.startswith("test_"):
            found.add(file)
        elif file.parts[0] in ("flows", "tasks"):
            found |= {PurePosixPath(LAYERING), _nearest("tests" / file.parent)}
    present = {
        each for each in found if ((ROOT / each).exists() and len(each.parts) > 2) or str(each) == LAYERING
    }
    return sorted(str(each) for each in present if not present & set(each.parents))


def _nearest(folder: PurePosixPath) -> PurePosixPath:
    """Return the folder, or the closest one above it that exists."""
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return folder


def _changed() -> list[str]:
    git = ["git", "diff", "--name-only", "HEAD"]
    return subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def main() -> int:
    """Run the tests and return their exit code; 0 where there are none."""
    chosen = tests_of(sys.argv[1:] or _changed())
    if not chosen:
        return 0
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *chosen]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
