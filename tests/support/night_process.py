"""A night as a process: the flow itself, as a worker runs it. It prints what the night wrote, and how it ended.

python -m tests.support.night_process BACKBONE LIMIT PIPELINE...
"""

import asyncio
import os
import sys
from pathlib import Path

NIGHT = "night"


def main() -> None:
    """Run the night."""
    from flows.prefect.settings import CLIENT, apply

    apply(CLIENT)
    from flows.evaluate.forms import Matrix
    from flows.matrix.nightly import nightly

    backbone, limit, *pipelines = sys.argv[1:]
    matrix = Matrix(backbones=[backbone], pipelines=pipelines, limit=int(limit))
    state = asyncio.run(nightly(matrix, ask_again=False, night=NIGHT, return_state=True))
    sys.stderr.write(f"{state.type.value} {state.message}\n")
    written = Path(os.environ["CROSSCHECK_HOME"]) / "nights" / f"{NIGHT}.json"
    if written.exists():
        sys.stdout.write(written.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
