"""Documents: what a report says, built once, and rendered to a terminal, Markdown and HTML."""
