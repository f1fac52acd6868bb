"""Benchmarks: from the files of each layout to questions, schemas and databases."""
