"""Shards: questions of an evaluation answered by the workers of a Prefect pool."""
