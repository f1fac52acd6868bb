"""Commands that read what runs left: compare, runs, query, export, log."""
