"""What of old runs is kept, and what may be removed."""
