"""Stages of RSL-SQL (arXiv 2411.00073)."""
