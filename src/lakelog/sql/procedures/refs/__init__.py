"""Procedures of tags, branches and rollback."""
