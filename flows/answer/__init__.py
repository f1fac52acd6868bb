"""The `answer` command: one question on a database of the user's own."""
