"""Run the tests of all promises and print what they counted: `python -m tests.promises [--json] [pytest's options]`."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from tests.promises.table import PROMISES


def main(arguments: list[str]) -> int:
    """Run, print, and return pytest's exit code, or 1 if a promise was not counted."""
    as_json = "--json" in arguments
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "promise", f"--junitxml={path}"]
        command += ["-o", "junit_family=legacy"]
        options = [argument for argument in arguments if argument != "--json"]
        ran = subprocess.run([*command, *options], stdout=sys.stderr, check=False)
        properties = ElementTree.parse(path).iter("property") if path.exists() else ()
        rows = [json.loads(each.attrib["value"]) for each in properties if each.attrib["name"] == "promise"]
    counts = {row["promise"]: row for row in rows}
    if as_json:
        print(json.dumps(counts, indent=1))
    else:
        show(counts)
    return ran.returncode or int(counts.keys() != PROMISES.keys())


def show(counts: dict[str, dict[str, object]]) -> None:
    """Print the counts as a table."""
    table = Table("promise", *("faults", "survived", "lost", "bought twice", "longest, s"))
    for name, promise in PROMISES.items():
        row = counts.get(name)
        names = ("faults", "survived", "lost", "twice", "seconds")
        cells = ["not run"] * 5 if row is None else [_cell(row[key]) for key in names]
        table.add_row(promise.text.replace("`", ""), *cells)
    Console(width=150).print(table)


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
