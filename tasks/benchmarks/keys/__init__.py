"""Answer keys (`benchmark.keys`): other golds for a benchmark's questions, each a score beside the official one."""
