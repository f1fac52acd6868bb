"""Spider's layout (Yu et al. 2018).

- `dev.json`: a list of objects with db_id, question, query; a question's id is its position, from 0.
- `tables.json`: the description of every schema, those of the training split included.
- `database/<db>/<db>.sqlite`. Further `database/<db>/*.sqlite` are the test suite (Zhong et al. 2020): databases with
  the same schema and other rows, on all of which a prediction has to be right.

The hardness that the Spider papers report is not in the files: it follows from the gold SQL's components and
is for scoring to work out, so `difficulty` is None here.
"""

from pathlib import Path

from tasks.benchmarks.layouts.base import Layout
from tasks.settings.kinds import LAYOUTS


@LAYOUTS.register("spider")
class SpiderLayout(Layout):
    """Spider's layout."""

    sql_keys = ("query", "SQL")
    graded = False
    descriptions = None
    exact_match = True
    submission = "lines"

    def suite_paths(self, databases: Path, database_id: str) -> tuple[Path, ...]:
        """Return the other SQLite files in the database's folder, by name."""
        main = self.database_path(databases, database_id)
        return tuple(sorted(path for path in main.parent.glob("*.sqlite") if path != main))
