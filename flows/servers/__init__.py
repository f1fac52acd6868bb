"""Command `up`: runs Prefect's server, MLflow's server and a worker."""
