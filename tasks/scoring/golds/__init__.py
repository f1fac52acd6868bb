"""Golds themselves: whether they run, and whether the data decide their result."""
