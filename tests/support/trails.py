"""What a question's trail says of its stages."""

from tasks.stage_runs.trail import Trail


def stages_run(trail: Trail) -> int:
    """Return how many stages ran, restored ones apart."""
    return sum(not record.restored for record in trail.records)
