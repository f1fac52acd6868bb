"""A night: what was evaluated, what came of it, whether somebody must know; as JSON, Markdown and a page to read."""
