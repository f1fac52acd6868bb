"""MLflow: runs, metrics, artifacts and traces."""
