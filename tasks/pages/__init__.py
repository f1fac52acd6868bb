"""Documents of runs, questions, comparisons and nights, as terminals, Markdown and HTML show them."""
