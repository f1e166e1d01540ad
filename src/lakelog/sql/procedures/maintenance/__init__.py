"""Procedures that compact, expire and clean."""
