"""The servers that stay: Prefect's, MLflow's and a worker, kept running by one command."""
