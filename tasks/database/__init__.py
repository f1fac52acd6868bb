"""Databases: their schema, how it is rendered into prompts, and sandboxed execution."""
