"""The result of an evaluation, and how it is printed."""
