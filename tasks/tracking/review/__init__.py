"""Golds that people review in MLflow."""
