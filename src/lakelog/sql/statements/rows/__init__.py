"""Statements that read or change rows."""
