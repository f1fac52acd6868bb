"""Recordings: replies kept in a file and served again without a model."""
