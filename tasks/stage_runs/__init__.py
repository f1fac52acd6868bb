"""How a stage runs: its cache key, its prompts, its task run, and the record that it leaves."""
