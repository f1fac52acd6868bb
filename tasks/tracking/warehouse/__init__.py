"""The results warehouse: questions, stages and calls of all runs, in one DuckDB file."""
