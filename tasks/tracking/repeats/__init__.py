"""Identical runs: how much they differ, and comparisons of several runs with several others."""
