"""Removal of unreachable files: expiry, orphans, partitions, consumers."""
