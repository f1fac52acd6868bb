"""The `rerun` command and its flow: some questions of an earlier run once more."""
