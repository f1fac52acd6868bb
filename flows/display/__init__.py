"""What a person sees: progress while an evaluation runs, and its summary."""
