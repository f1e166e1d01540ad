"""Checks of every request before a route answers: origins, limits and headers."""
