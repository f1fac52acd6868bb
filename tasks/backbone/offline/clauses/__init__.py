"""The clauses of a query, each read from the words of a linked question."""
