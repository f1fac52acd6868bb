"""Prefect: task runs of stages, result store, server, schedules, and the processes of `crosscheck up`."""
