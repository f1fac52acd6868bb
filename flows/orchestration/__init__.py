"""Everything that Crosscheck does with Prefect; docs/prefect.md says what it does instead of Prefect, and why."""
