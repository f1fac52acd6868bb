"""One module per pipeline: stages wired into one question's path, as the paper's algorithm reads."""
