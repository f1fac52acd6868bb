"""The `up` command: Prefect's server, MLflow's and a worker, kept running."""
