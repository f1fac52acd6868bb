"""Scoring: the only reader of gold SQL."""
