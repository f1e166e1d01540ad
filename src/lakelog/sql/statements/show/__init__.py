"""Statements that show tables, their columns, partitions and history."""
