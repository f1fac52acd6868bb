"""The `init-benchmark` command."""
