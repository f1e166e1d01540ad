"""Compaction of a bucket: plan, merge, result."""
