"""Materialized views: their queries, the keys of their rows, and how changes of the sources reach them."""
