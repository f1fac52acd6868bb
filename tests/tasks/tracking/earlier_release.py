"""What the release of commit 39ba542 wrote: its warehouse, a night, and a run that waits to be logged to MLflow.

Made by that commit's own code from the samples beside this file: two runs and their night (`a_night`, `two_runs`), a
run of `make_report(12)` and an abandoned one. The warehouse was exported as Parquet, since a DuckDB file takes 2.6 MB.
"""

import shutil
from pathlib import Path

from tasks.settings.home import Home

WRITTEN = Path(__file__).parent / "fixtures" / "written_by_39ba542"
RUN, ABANDONED = "20261121-020000-3f9a1c", "20261122-020000-abcdef"
BASELINE, NIGHTLY = "20261120-013000-000000", "20261121-013000-000001"
NIGHT = "2026-11-21T01:30Z"


def working_folder(folder: Path) -> Home:
    """Make a working folder as that release left it."""
    import duckdb

    home = Home(folder)
    home.nights.mkdir(parents=True)
    shutil.copy(WRITTEN / "2026-11-21T01-30Z.json", home.nights)
    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute((WRITTEN / "schema.sql").read_text(encoding="utf-8"))
        for file in WRITTEN.glob("*.parquet"):
            connection.execute(f"COPY {file.stem} FROM '{file}' (FORMAT parquet)")
    return home
