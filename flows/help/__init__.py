"""The command `help` and its topics, which are pages of the documentation, too."""
