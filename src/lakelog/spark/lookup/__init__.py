"""Lookup joins in tasks."""
