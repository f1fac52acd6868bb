"""Two runs against each other: differences and their significance, as records, JSON and an HTML page."""
