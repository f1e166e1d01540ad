"""Commands that show tables."""
