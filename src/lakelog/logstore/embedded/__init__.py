"""The embedded log: SQLite files beside the table."""
