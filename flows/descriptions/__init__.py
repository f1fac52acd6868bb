"""The `prepare` command: column descriptions, generated once per database by a backbone."""
