"""BIRD's layout (Li et al. 2023), also that of BIRD mini-dev and of most data of one's own.

- `dev.json`: a list of objects with question_id, db_id, question, evidence, SQL, difficulty.
- `dev_tables.json`: Spider's description of every schema.
- `dev_databases/<db>/<db>.sqlite`, and beside it `database_description/<table>.csv`.
"""

from tasks.benchmarks.layouts.base import Layout
from tasks.settings.kinds import LAYOUTS


@LAYOUTS.register("bird")
class BirdLayout(Layout):
    """BIRD's layout: the one that `Layout` describes."""
