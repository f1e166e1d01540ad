"""Commands that compact, expire and optimize tables, and procedures."""
