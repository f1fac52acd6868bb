"""Answer keys (`benchmark.answer_keys`): other golds for a benchmark's questions, with a score of their own."""
