"""DuckDB: files, schema, and a connection that only reads."""
