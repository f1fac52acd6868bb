"""Pure functions on SQL text. SQL that cannot be parsed gets a documented fallback instead of an exception."""
