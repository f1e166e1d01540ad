"""Batch reads by Spark's own Parquet scan."""
