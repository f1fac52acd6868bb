"""What a prompt shows and requests: its sections, task, database and English words."""
