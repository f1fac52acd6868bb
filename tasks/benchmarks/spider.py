"""Spider's layout (Yu et al. 2018).

- `dev.json`: a list of objects with db_id, question, query; a question's id is its position, from 0.
- `tables.json`: the description of every schema, those of the training split included.
- `database/<db>/<db>.sqlite`.

The hardness that the Spider papers report is not in the files: it follows from the gold SQL's components and
is for scoring to work out, so `difficulty` is None here.
"""

from tasks.benchmarks.layout import FileLayout

SPIDER = FileLayout("spider", ("query", "SQL"), graded=False, descriptions=None)
