"""The `nightly` flow and the `night` command: a matrix of evaluations against their baselines."""
