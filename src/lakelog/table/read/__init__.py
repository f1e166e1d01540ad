"""Batch reads: files, changes, both stores, and the cut between a snapshot and the log."""
