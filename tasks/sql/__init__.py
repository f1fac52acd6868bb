"""Pure functions on SQL text. What cannot be parsed degrades to a documented fallback, it never raises."""
