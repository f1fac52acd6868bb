"""Evaluations as MLflow runs: parameters, metrics, charts, traces."""
