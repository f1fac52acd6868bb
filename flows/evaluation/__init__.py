"""The `evaluate` command and its flow: one benchmark, one backbone, one pipeline."""
