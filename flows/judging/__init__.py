"""The `judge` command: a model's opinion on the answers of a run that has ended."""
