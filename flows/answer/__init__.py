"""The `answer` command: one question on a user's database."""
