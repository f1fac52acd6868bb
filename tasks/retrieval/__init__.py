"""Few-shot demonstrations: retrieval from the training questions, and the guard against leaks."""
