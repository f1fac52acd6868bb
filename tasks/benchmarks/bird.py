"""BIRD's layout (Li et al. 2023), also that of BIRD mini-dev, of the demo and of one's own data.

- `dev.json`: a list of objects with question_id, db_id, question, evidence, SQL, difficulty.
- `dev_tables.json`: Spider's description of every schema.
- `dev_databases/<db>/<db>.sqlite`, and beside it `database_description/<table>.csv`.
"""

from tasks.benchmarks.layout import FileLayout

BIRD = FileLayout("bird", ("SQL", "query"), graded=True, descriptions="database_description")
