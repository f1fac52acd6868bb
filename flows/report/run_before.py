"""The comparison of a run with the run before it, as the first screen shows it."""

from tasks.core.errors import CrosscheckError
from tasks.settings.home import Home
from tasks.tracking.comparison.compare import compare
from tasks.tracking.comparison.run_comparison import RunComparison
from tasks.tracking.warehouse.run_names import run_before
from tasks.tracking.warehouse.runs import Warehouse


def compared_with_run_before(run_id: str, home: Home) -> RunComparison | None:
    """Compare the last finished run of the same questions before a run (A) with it (B).

    None if there is none, or if the warehouse does not have both, or refuses them.
    """
    warehouse = Warehouse(home.warehouse)
    try:
        before = run_before(run_id, warehouse.runs())
        return compare(warehouse.read_run(before), warehouse.read_run(run_id)) if before else None
    except CrosscheckError:  # such as databases that changed between them: `crosscheck compare` says so
        return None
