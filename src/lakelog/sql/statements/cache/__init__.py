"""Statements of tables that Spark holds in memory."""
