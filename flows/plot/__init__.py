"""The command that draws figures of runs."""
