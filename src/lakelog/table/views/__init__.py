"""Materialized views: their definitions, positions in their sources, and local states."""
