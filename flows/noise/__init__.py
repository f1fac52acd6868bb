"""The `noise` command: identical runs of an evaluation, and how much they differ."""
