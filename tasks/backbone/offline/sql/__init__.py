"""The query that is built, as sqlglot expressions, and the joins that it needs."""
