"""Two runs against each other: what differs, whether it is real, as records, JSON and a page to read."""
