"""Database servers: PostgreSQL and MySQL or MariaDB; schema, and connections that only read."""
