"""Compaction, expiry, statistics, and the thread that runs them beside a writer."""
