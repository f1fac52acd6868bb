"""Stages of DAC (arXiv 2408.08779)."""
