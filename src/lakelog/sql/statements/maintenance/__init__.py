"""Statements that compact, clean and analyze tables, and CALL."""
