"""Spark's SQL in the words of DuckDB: types of Spark, expressions, queries."""
