"""Engines of databases, one module each: `tasks.database.engine.ENGINES` finds them by name."""
