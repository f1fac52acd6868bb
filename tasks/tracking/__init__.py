"""Where results go: MLflow runs, the DuckDB warehouse, the submission file and the JSON summary."""
