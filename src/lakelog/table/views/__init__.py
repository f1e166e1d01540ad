"""Materialized views: what a view table stores about its query, its position in its sources, and its local state."""
