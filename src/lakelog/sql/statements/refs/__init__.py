"""Statements of tags, branches and rollback."""
