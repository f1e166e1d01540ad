"""Predicates, and the files that they rule out."""
