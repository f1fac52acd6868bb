"""A question linked to a schema: mentions of tables, columns and values, its evidence, and a query of its clauses."""
