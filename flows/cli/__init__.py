"""The command line: its entry point, shared options, progress, and the commands without a flow."""

from flows.cli.program import main

__all__ = ["main"]
