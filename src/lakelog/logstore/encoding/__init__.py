"""Rows as keys and values, shared by the record formats."""
