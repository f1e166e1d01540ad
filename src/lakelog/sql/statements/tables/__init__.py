"""Statements that make, alter and drop tables and partitions."""
