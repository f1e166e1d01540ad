"""Planned splits, data files, deletion vectors, changes, superseded rows."""
