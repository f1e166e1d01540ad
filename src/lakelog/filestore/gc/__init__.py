"""Removal of files that nothing reaches: expiry, orphans, partitions, consumers."""
