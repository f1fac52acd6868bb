"""Index of a database's values, and bridging between values and a question."""
