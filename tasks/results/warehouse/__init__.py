"""The results warehouse: every question, stage and call of every run, in DuckDB."""
