"""Statements of catalogs and databases."""
