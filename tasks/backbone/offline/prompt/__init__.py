"""What a prompt shows and asks for: its sections, its task, and the database as its text describes it."""
