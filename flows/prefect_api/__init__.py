"""Everything that is about Prefect's API rather than about an evaluation."""
