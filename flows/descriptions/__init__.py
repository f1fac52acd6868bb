"""The `prepare` command: column descriptions, written once per database by a backbone."""
