"""Prefect flows and the command line."""

import time

STARTED = time.monotonic() - time.process_time()
"""When a command began, on `time.monotonic`'s clock: now, less Python's own start.

The start of the process would be wrong: a shell or a script that ends with the command becomes its process.
"""
