"""Copies of SQLite databases in other engines: what is copied, as which types, and how each engine is written."""
