"""Predicates, and data skipping with them."""
