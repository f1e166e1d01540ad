"""Partitions and readers of the Python data source."""
