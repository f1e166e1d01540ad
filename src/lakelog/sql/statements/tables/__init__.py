"""Statements that create, alter and drop tables and partitions."""
