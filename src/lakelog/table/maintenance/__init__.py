"""Compaction, expiry, statistics, and the thread that runs them in parallel with a writer."""
