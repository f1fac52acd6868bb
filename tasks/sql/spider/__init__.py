"""Reads SQL and compares it as the official evaluator of Spider does."""
