"""Published figures beside ours: one module for each table or run that is reproduced."""
