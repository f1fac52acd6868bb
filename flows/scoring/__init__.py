"""The `score` command, and the scorer that it shares with evaluations."""
