"""Staged runs: an attempt's rows that wait for their files, and their conversion to level-0 files."""
