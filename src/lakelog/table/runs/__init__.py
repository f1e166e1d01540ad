"""Staged runs: the rows of an attempt that wait for their files, and how they become level-0 files."""
