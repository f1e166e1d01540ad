"""Maintenance started from a page: in its own process, with progress and an audit line."""
