"""Prefect's API: server, settings, storage, results, task runs and flow runs."""
