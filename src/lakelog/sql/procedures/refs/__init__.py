"""Procedures of tags and branches."""
