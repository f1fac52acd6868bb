"""The `verify-gold` command: every gold query of a benchmark, run and classified."""
