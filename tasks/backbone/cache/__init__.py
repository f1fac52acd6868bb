"""The reply cache: model replies that were paid for, in SQLite or PostgreSQL."""
