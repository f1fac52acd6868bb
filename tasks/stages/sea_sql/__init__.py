"""Stages of SEA-SQL (arXiv 2408.04919)."""
