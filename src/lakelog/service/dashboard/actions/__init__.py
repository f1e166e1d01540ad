"""Maintenance that is started on a page: in a process of its own, with progress and an audit line."""
