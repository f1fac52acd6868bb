"""Statistics of paired and of repeated runs: tests, intervals, variance components."""
