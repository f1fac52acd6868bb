"""A question linked to a schema: mentions of tables, columns and values, and its evidence."""
