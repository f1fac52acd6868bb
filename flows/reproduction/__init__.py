"""Published figures, and those expected here, beside ours: one module for each table or run that is reproduced."""
