"""Statements about tables in Spark's memory."""
