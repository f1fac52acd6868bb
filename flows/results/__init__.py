"""Commands that read results of runs: compare, runs, query, export, log."""
