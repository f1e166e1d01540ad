"""Procedures that make an older state the newest."""
